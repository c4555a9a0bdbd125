"""The page of a real `berth up` in a real browser: every view, kept in step without a reload."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.api.client import MERGE, Client, Json
from tests.support.paths import ROOT
from tests.support.processes.control_plane import Up
from tests.support.processes.plane_client import plane_client
from tests.support.waiting import polls
from tests.system.web.accessibility import FAINT, UNNAMED
from tests.system.web.browser import Visit

VIEWS = ["/topology", "/constraints", "/pending", "/what-if", "/now", "/fleet", "/nodes/node-a1"]


@pytest.fixture
def api(plane: Up) -> Any:
    with plane_client(plane) as client:
        yield client


def pod(name: str, **spec: Any) -> Json:
    container = {"name": "c", "image": "example/c:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], **spec},
    }


@pytest.mark.parametrize("path", VIEWS)
def test_every_view_shows_something_without_an_error(visit: Visit, path: str) -> None:
    """Opened by its address, a view draws itself, without a complaint and without a request elsewhere."""
    visit.go(path)
    visit.says("6 nodes", within="#status")
    visit.drawn()


def test_the_topology_is_nested_by_what_the_reader_picks(visit: Visit) -> None:
    """Picking a label changes picture, table and address, and the address gives the same again."""
    visit.go("/topology?by=zone")
    visit.page.locator("summary", has_text="Domains as a table").click()
    names = visit.page.locator("table button").all_inner_texts()
    assert names == ["a", "b", "c"]
    visit.page.get_by_label("Do not nest by zone").click()
    visit.page.wait_for_url(re.compile(r"/topology(\?|$)(?!.*by=zone)"))
    visit.page.locator("canvas[aria-label*='by nothing']").wait_for()


def test_pods_are_found_by_label_workload_and_name(visit: Visit) -> None:
    """What is looked for is counted beside the picture, by labels of pods and of nodes."""
    for words, number in (
        ("app=web", 6),
        ("workload=deployment/web zone=a", 2),
        ("web-", 6),
        ("app=nobody", 0),
    ):
        visit.go(f"/topology?find={words.replace(' ', '%20')}")
        visit.says("Found", within="aside")
        visit.page.locator("aside dd").nth(2).wait_for()
        assert visit.page.locator("aside dd").nth(2).inner_text() == str(number), words


def test_the_first_screen_says_what_to_look_at(visit: Visit) -> None:
    """Whoever opens the page sees which pods wait, and gets from there to the reason."""
    visit.go("/")
    visit.says("Look here first", within="aside")
    visit.says("without a node", within="aside .attention")
    visit.page.locator("aside .attention a", has_text="without a node").click()
    visit.page.wait_for_url(re.compile("/pending"))
    visit.says("default/report", within="#view")


def test_what_is_found_is_counted_in_every_domain(visit: Visit) -> None:
    """Where is it, by zone? The picture has the number in each domain, and the list names the pods."""
    visit.go("/topology?by=zone&find=app%3Dweb")
    visit.says("on node-", within="aside")
    with visit.page.expect_download() as saved:
        visit.page.get_by_role("button", name="SVG").click()
    assert saved.value.path().read_text().count("2 found") == 3


@pytest.mark.parametrize("colour", ["workload", "namespace", "phase", "rule", "use"])
def test_pods_are_coloured_by_what_the_reader_picks(visit: Visit, colour: str) -> None:
    """Every way has a legend, and one that is pressed looks for just that."""
    visit.go(f"/topology?color={colour}")
    visit.page.locator(".legend .swatch").first.wait_for()
    if colour in ("workload", "namespace", "phase"):
        visit.page.locator(".legend button").first.click()
        visit.page.wait_for_url(re.compile("find="))
        visit.page.locator('.legend button[aria-pressed="true"]').wait_for()


def test_a_pod_goes_pending_and_the_page_says_why(visit: Visit, api: Client) -> None:
    """A pod that fits nowhere appears among the pending ones by itself, with the scheduler's sentence."""
    visit.go("/pending")
    visit.says("without a node", within="#view")
    api.post("/api/v1/namespaces/default/pods", pod("choosy", nodeSelector={"disk": "nvme"}))
    visit.says("default/choosy", within="#view")
    visit.go("/pods/default/choosy")
    visit.says("nodes are available", within="#view")
    visit.says("disk", within="#view")
    assert visit.page.locator("table.matrix").count() == 1


def test_a_cordon_is_on_the_page_without_a_reload(visit: Visit, api: Client) -> None:
    """What somebody does to a node is on the open page a moment later."""
    visit.go("/nodes/node-c1")
    visit.says("Ready", within="#view")
    assert visit.page.locator("#view", has_text="cordoned").count() == 0
    visit.page.evaluate("window.stayed = true")
    api.send("PATCH", "/api/v1/nodes/node-c1", {"spec": {"unschedulable": True}}, content_type=MERGE)
    visit.says("cordoned", within="#view")
    api.send("PATCH", "/api/v1/nodes/node-c1", {"spec": {"unschedulable": None}}, content_type=MERGE)
    visit.page.locator("#view", has_text="cordoned").wait_for(state="detached")
    assert visit.page.evaluate("window.stayed") is True


def test_a_placed_pod_is_explained_by_its_scores(visit: Visit, api: Client) -> None:
    """The page shows the node's score beside the runner-up's, and what would flip the choice."""
    (found,) = [
        item["metadata"]["name"]
        for item in api.get("/api/v1/namespaces/default/pods").json["items"]
        if item["metadata"]["name"].startswith("cache-")
    ]
    visit.go(f"/pods/default/{found}")
    visit.says("runs on", within="#view")
    visit.page.locator("svg.waterfall rect").first.wait_for()


def test_what_happens_is_told_as_it_happens(visit: Visit, api: Client) -> None:
    """A binding made while the page is open is on it, and its story is a click away."""
    visit.go("/now")
    visit.says("Scheduled", within="#view")
    api.post("/api/v1/namespaces/default/pods", pod("newcomer"))
    visit.says("Successfully assigned default/newcomer", within="#view")
    visit.page.get_by_label("The story of Pod default/newcomer").first.click()
    visit.page.wait_for_url(re.compile("story="))
    visit.says("Everything, not only Pod default/newcomer", within="#view")


def test_what_happened_before_is_told_whatever_was_heard_since(visit: Visit, api: Client) -> None:
    """An event that comes while another view is open does not hide those from before the page was opened."""
    visit.go("/topology")
    visit.drawn()
    api.post("/api/v1/namespaces/default/pods", pod("meanwhile"))
    heard = "import('/static/store.js').then(({ store }) => store.events.length)"
    for _ in polls(60):
        if visit.page.evaluate(heard):
            break
    visit.page.get_by_role("link", name="Now").click()
    visit.says("default/meanwhile", within="#view .feed")
    visit.says("Successfully assigned default/web-", within="#view .feed")


def test_a_click_is_not_lost_when_the_cluster_changes_under_it(visit: Visit) -> None:
    """A link that is pressed before a change and let go after it leads where it says."""
    visit.go("/topology")
    visit.drawn()
    box = visit.page.get_by_role("link", name="Now").bounding_box()
    assert box is not None
    visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    visit.page.mouse.down()
    visit.page.evaluate(
        "import('/static/store.js').then(({ store }) => { store.dispatchEvent(new Event('change'));"
        " return new Promise((done) => setTimeout(done, 100)); })"
    )
    visit.page.mouse.up()
    visit.page.wait_for_url("**/now")


def test_what_others_wrote_is_never_markup(visit: Visit, api: Client) -> None:
    """Whoever may write an event may put anything into its words: they are shown, and nothing more."""
    words = '<img src=x onerror="window.harmed = true"><script>window.harmed = true</script>'
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "hostile", "namespace": "default"},
        "involvedObject": {"kind": words, "name": words, "namespace": "default"},
        "reason": "Hostile",
        "message": words,
        "type": "Warning",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    visit.go("/now")
    api.post("/api/v1/namespaces/default/events", event)
    visit.says("Hostile", within="#view")
    visit.says(words, within="#view .feed")
    assert visit.page.locator("#view img, #view script").count() == 0
    assert visit.page.evaluate("window.harmed") is None


def test_an_eviction_is_told_to_its_end(visit: Visit, api: Client) -> None:
    """A rule breaks, a pod goes, another comes: the page tells it in one story, without a reload."""
    rule = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "lamp", "operator": "In", "values": ["on"]}]}]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": rule}}
    template = pod("lamp", affinity=affinity)
    labels = {"app": "lamp"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "lamp"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }
    light(api, "node-a2", "on")
    api.post("/apis/apps/v1/namespaces/default/deployments", deployment)
    visit.go("/now?about=evicting")
    for _ in polls(60):
        if "node-a2" in nodes_of(api, "lamp"):
            break
    light(api, "node-b2", "on")
    light(api, "node-a2", "off")
    visit.says("Rule broken", within=".story")
    visit.says("Replacement ready", within=".story")
    visit.says("node-b2", within=".story")
    api.delete("/apis/apps/v1/namespaces/default/deployments/lamp")


def light(api: Client, node: str, value: str) -> None:
    changed = {"metadata": {"labels": {"lamp": value}}}
    api.send("PATCH", f"/api/v1/nodes/{node}", changed, content_type=MERGE)


def nodes_of(api: Client, app: str) -> list[str]:
    pods = api.get(f"/api/v1/namespaces/default/pods?labelSelector=app%3D{app}").json["items"]
    return [each["spec"].get("nodeName", "") for each in pods]


def test_what_if_on_the_page_is_what_the_command_says(visit: Visit, plane: Up) -> None:
    """Put together by clicking, the answer is the command's sentence, and nothing was done to the cluster."""
    visit.go("/what-if")
    visit.page.get_by_label("Change").select_option("lose")
    visit.page.get_by_label("What", exact=True).last.fill("zone=a")
    visit.page.get_by_role("button", name="Add").click()
    visit.drawn()
    said = visit.page.locator("#view .card[role=status] .big").inner_text()
    command = [sys.executable, "-m", "berth", "what-if", "--lose", "zone=a", "--kubeconfig", plane.kubeconfig]
    told = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False)  # noqa: S603
    assert said == json.loads(told.stdout)["sentence"]
    visit.page.get_by_label("Take lose zone=a back").click()
    visit.says("Nothing is changed", within="#view")
    visit.says("6 nodes", within="#status")


def test_what_if_is_asked_by_clicking_at_the_picture(visit: Visit) -> None:
    """A question that is offered is answered side by side; what is chosen there offers to go on from it."""
    visit.go("/what-if")
    visit.page.get_by_role("link", name="we lose zone b?").click()
    visit.says("After", within="#view .sides")
    assert visit.page.locator("#view .sides canvas").count() == 2
    visit.page.locator("#view .sides canvas").last.focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.get_by_role("link", name="cordon it").click()
    visit.says("2. cordon node-a1", within="#view .chips")
    visit.drawn()
    visit.says("berth what-if --lose zone=b --cordon node-a1", within="#view .same")
    with visit.page.expect_download() as saved:
        visit.page.get_by_role("button", name="SVG").click()
    picture = saved.value.path().read_text()
    assert all(words in picture for words in ("Before", "After", "gone: node-b1", "node-c2"))


def test_whoever_types_is_not_disturbed_by_what_happens(visit: Visit, api: Client) -> None:
    """A view that is drawn again keeps the words that are being typed, and what was opened."""
    visit.go("/pending")
    visit.drawn()
    field = visit.page.get_by_label("Find")
    field.press_sequentially("default/")
    visit.page.wait_for_url(re.compile("find="))
    api.post("/api/v1/namespaces/default/pods", pod("disturber", nodeSelector={"disk": "disturbing"}))
    visit.says("default/disturber", within="#view")
    field.press_sequentially("pod/disturber")
    visit.page.wait_for_url(re.compile("disturber"))
    assert visit.page.get_by_label("Find").input_value() == "default/pod/disturber"
    api.delete("/api/v1/namespaces/default/pods/disturber")


def test_constraints_are_strips_with_counts(visit: Visit) -> None:
    """The demo's web is spread over three zones, two pods in each."""
    visit.go("/constraints?find=web")
    strip = visit.page.locator("section.card", has_text="Deployment/web").first
    strip.wait_for()
    assert strip.locator(".domain").count() == 3
    assert strip.locator(".domain b").all_inner_texts() == ["2", "2", "2"]


def test_a_view_is_exported_as_json_and_as_a_picture(visit: Visit) -> None:
    """What is saved is the command's JSON, and an SVG that draws every node."""
    visit.go("/topology?by=zone")
    visit.says("6 nodes", within="#status")
    with visit.page.expect_download() as saved:
        visit.page.get_by_role("button", name="JSON").click()
    document = json.loads(saved.value.path().read_text())
    assert (document["kind"], document["summary"]["nodes"]) == ("Simulation", 6)
    with visit.page.expect_download() as saved:
        visit.page.get_by_role("button", name="SVG").click()
    picture = saved.value.path().read_text()
    assert picture.startswith("<svg")
    assert all(name in picture for name in ("node-a1", "node-b2", "node-c1"))


@pytest.mark.parametrize(
    "view",
    [
        "topology",
        "pending",
        "constraints",
        "pods/default/report",
        "pods/default/ledger-0",
        "what-if?do=lose%20zone%3Da",
    ],
)
def test_what_is_exported_is_what_the_command_prints(visit: Visit, view: str) -> None:
    """A view's JSON is, as a whole, what the command prints that the view names."""
    found, expected = None, None
    for _ in polls(60):  # things happen in the cluster meanwhile
        visit.go(f"/{view}")
        visit.drawn()
        with visit.page.expect_download() as saved:
            visit.page.get_by_role("button", name="JSON").click()
        found = json.loads(saved.value.path().read_text())
        named = visit.page.locator("#view .same code").last.inner_text()
        arguments = [sys.executable, "-m", *shlex.split(named)]
        told = subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603
        expected = json.loads(told.stdout)
        if found == expected:
            break
    assert found == expected


def test_a_node_and_what_happened_are_exported_as_kubectl_prints_them(visit: Visit, api: Client) -> None:
    """Every field that the API server has of the node, and the list of events, are in what is saved."""
    visit.go("/nodes/node-a1")
    visit.says("kubectl get node node-a1 -o json", within="#view .same")
    with visit.page.expect_download() as saved:
        visit.page.get_by_role("button", name="JSON").click()
    found, expected = json.loads(saved.value.path().read_text()), api.get("/api/v1/nodes/node-a1").json
    assert (found["kind"], found["apiVersion"], found.keys()) == ("Node", "v1", expected.keys())
    assert found["metadata"]["uid"] == expected["metadata"]["uid"]
    assert found["status"].keys() == expected["status"].keys()
    visit.go("/now")
    visit.says("kubectl get events -A -o json", within="#view .same")
    with visit.page.expect_download() as saved:
        visit.page.get_by_role("button", name="JSON").click()
    events = json.loads(saved.value.path().read_text())
    assert events["kind"] == "List"
    assert "Scheduled" in {each["reason"] for each in events["items"]}


def test_a_fleet_is_exported_as_the_command_prints_it(visit: Visit, plane: Up, api: Client) -> None:
    """With a member cluster there is a fleet: what is saved is what `berth fleet simulate` says of it."""
    cluster = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "member1"},
        "spec": {"syncMode": "Pull", "region": "eu"},
    }
    api.post("/apis/cluster.karmada.io/v1alpha1/clusters", cluster)
    visit.go("/fleet")
    visit.says("member1", within="#view")
    with visit.page.expect_download() as saved:
        visit.page.get_by_role("button", name="JSON").click()
    command = [sys.executable, "-m", "berth", "fleet", "simulate", "--kubeconfig", plane.kubeconfig]
    told = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False)  # noqa: S603
    found = json.loads(saved.value.path().read_text())
    assert found == json.loads(told.stdout)
    assert found["summary"]["clusters"] == 1


def test_the_page_can_be_used_without_a_mouse(visit: Visit) -> None:
    """Arrow keys choose a node in the picture, Enter opens it."""
    visit.go("/topology?by=zone")
    visit.says("6 nodes", within="#status")
    visit.page.locator("canvas").focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.wait_for_url(re.compile("at=node"))
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url(re.compile("/nodes/node-a1"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path", [*VIEWS, "/pods/default/report", "/pods/default/ledger-0", "/what-if?do=lose%20zone%3Da"]
)
def test_everything_has_a_name_and_can_be_read(visit: Visit, path: str, scheme: Any) -> None:
    """Every control and picture has a name for screen readers, and text stands out from what is behind it."""
    visit.page.emulate_media(color_scheme=scheme)
    visit.go(path)
    visit.says("6 nodes", within="#status")
    visit.drawn()
    assert visit.page.evaluate(UNNAMED) == []
    assert visit.page.evaluate(FAINT) == []


def test_a_stale_link_is_told_so(browser: Browser, plane: Up) -> None:
    """A link that was used opens nothing in another browser, and says what to do."""
    page = browser.new_context().new_page()
    page.goto(plane.page)
    assert "no longer good" in page.inner_text("body")
    page.context.close()


@pytest.mark.parametrize(
    ("name", "path"), [("topology", "/topology?by=zone"), ("pending", "/pods/default/report")]
)
def test_the_pictures_in_the_documents_are_of_this_page(visit: Visit, name: str, path: str) -> None:
    """They are drawn here; `BERTH_SCREENSHOTS=docs/images` puts them where the documents have them."""
    visit.go(path)
    visit.says("6 nodes", within="#status")
    visit.drawn()
    visit.page.evaluate("document.querySelector('#view .same').remove()")  # where the test keeps its files
    picture = visit.page.screenshot()
    assert picture.startswith(b"\x89PNG")
    if folder := os.environ.get("BERTH_SCREENSHOTS"):
        (ROOT / folder / f"{name}.png").write_bytes(picture)
    assert (ROOT / "docs" / "images" / f"{name}.png").exists()

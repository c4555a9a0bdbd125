"""The `berth` command. Subcommands are imported when they run, so that `berth --help` is immediate."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
from typing import TextIO

import click

from berth import __version__
from berth.cli.lazy_group import LazyGroup
from berth.cli.output.tables import first_cause, tell
from berth.cli.output.visible import guard_output, visible

# Name -> module of the command, and the line `--help` shows, so that showing it needs no import.
_COMMANDS = {
    "evaluate": ("berth.cli.commands.evaluate", "Judge cases: JSON lines in, JSON lines out."),
    "simulate": ("berth.cli.commands.simulate", "Place the pending pods of manifests onto their nodes."),
    "explain": ("berth.cli.commands.explain", "Say why a pod fits where it fits, and what would help."),
    "audit": (
        "berth.cli.commands.audit",
        "Find the running pods that break a rule, and who would be evicted.",
    ),
    "what-if": (
        "berth.cli.commands.what_if",
        "Say what would happen: drain, lose, scale, roll out, apply and more.",
    ),
    "web": ("berth.cli.commands.web", "Show where pods are and why, on a page over a cluster or a dump."),
    "lint": ("berth.cli.commands.lint", "Find what will go wrong with manifests, by what they would do."),
    "scheduler": ("berth.cli.commands.scheduler", "Schedule a cluster: kube-scheduler's rules, and Berth's."),
    "webhook": ("berth.cli.commands.webhook", "Check pods before an API server stores them."),
    "controllers": (
        "berth.cli.commands.controllers",
        "Evict running pods whose required rules stop holding.",
    ),
    "fleet": ("berth.cli.fleet.command", "Place workloads over clusters, for Karmada."),
    "up": ("berth.cli.up.command", "Run a Kubernetes control plane with hollow nodes."),
    "demo": ("berth.cli.commands.demo", "Show what Berth does on a small built-in cluster."),
    "completion": ("berth.cli.commands.completion", "Print the completion script for a shell."),
}

BAD_INPUT, UNEXPECTED, INTERRUPTED, BROKEN_PIPE = 2, 70, 130, 141
# Errors of the machine rather than of Berth: a full or broken disk, or a limit that is too low.
_OF_THE_MACHINE = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EBADF)
)
_VERBOSE = frozenset(("-v", "--verbose"))


class _Berth(LazyGroup):
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _silence(sys.stdout)
            ctx.exit(BROKEN_PIPE)


@click.group(
    cls=_Berth,
    modules=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Also installed as a kubectl plugin: kubectl berth COMMAND.",
)
@click.version_option(__version__, "--version", prog_name="berth", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Show where an unexpected error comes from.")
def cli(*, verbose: bool) -> None:
    """Decide where Kubernetes workloads run, by affinity."""
    del verbose  # `run` looks for it, since an error may come before options are read


def main() -> None:
    """Run the command line, and end with the exit code of whatever happened."""
    # NumPy's linear algebra is not used, but on loading it would start a busy thread for every core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _open_streams()
    guard_output()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        code = BROKEN_PIPE
    except OSError as error:
        _silence(sys.stdout)
        if code != BAD_INPUT:  # that was printed already
            code = _refuse(click.ClickException(f"cannot write the output: {error.strerror}"))
    sys.exit(code)


def _open_streams() -> None:
    """Open standard streams that the caller closed, so that no other file gets their number.

    Using them is an error, except that what is written to standard error is dropped.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            usable = (os.O_WRONLY, os.O_RDONLY, os.O_RDWR)[number]
            os.open(os.devnull, usable)  # the lowest number that is free, which is this one
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: PTH123, SIM115 - lasts as long as we do


def _silence(stream: TextIO) -> None:
    """Send what is still buffered to /dev/null; otherwise Python prints an error on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def run(arguments: list[str]) -> int:
    try:
        # The command as the user typed it: kubectl runs `kubectl-berth` for `kubectl berth`.
        plugin = sys.argv[0].rpartition(os.sep)[2].startswith("kubectl")
        code = cli.main(arguments, prog_name="kubectl berth" if plugin else "berth", standalone_mode=False)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        with contextlib.suppress(OSError):
            click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return error.exit_code
    except click.ClickException as error:
        return _refuse(error)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        if _VERBOSE.intersection(arguments):
            raise
        return _fail(first_cause(error))
    return code if isinstance(code, int) else 0


def _fail(cause: BaseException) -> int:
    """Print an error that no command expected: a fault of the machine, or a bug."""
    if isinstance(cause, OSError) and cause.errno in _OF_THE_MACHINE:
        mode = fcntl.fcntl(sys.stdin.fileno(), fcntl.F_GETFL) & os.O_ACCMODE
        stream = "read standard input" if mode == os.O_WRONLY else "write the output"
        where = f"{cause.filename}: " if cause.filename else f"cannot {stream}: "
        return _refuse(click.ClickException(f"{where}{cause.strerror}"))
    what = visible(f"{type(cause).__name__}: {cause}".rstrip(": "))
    with contextlib.suppress(OSError):
        tell("error", f"unexpected {what}; please report it with the output of berth -v")
    return UNEXPECTED


def _refuse(error: click.ClickException) -> int:
    with contextlib.suppress(OSError):  # standard error may be on the same full disk
        tell("error", visible(error.format_message()))
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(f"see '{error.ctx.command_path} --help'", err=True)
    return BAD_INPUT

"""`berth completion`: scripts by which shells ask click for commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, *, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  source <(berth completion bash)
    zsh:   source <(berth completion zsh)
    fish:  berth completion fish | source
    """
    complete = get_completion_class(shell)
    if complete is None:
        raise click.ClickException(f"there is no completion for {shell}")
    click.echo(complete(ctx.find_root().command, {}, "berth", "_BERTH_COMPLETE").source())

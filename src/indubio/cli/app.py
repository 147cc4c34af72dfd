"""The `indubio` command and the list of its subcommands."""

from typing import Annotated

import typer

from indubio import __version__
from indubio.cli import (
    assess,
    audit,
    benchmark,
    config,
    datasets,
    demo,
    evaluate,
    export,
    fit,
    inspect,
    keys,
    learn,
    live,
    mcp,
    report,
    reproduce,
    serve,
    tune,
)
from indubio.cli.exit_codes import exit_codes

app = typer.Typer(
    name="indubio",
    help="Anomaly detection that knows when it is in doubt. Add --debug to see tracebacks.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=exit_codes(),
)

app.command("demo")(demo.demo)
app.command("fit", epilog="Example: indubio fit good.csv --id serial --time when --out model")(fit.fit)
app.command("tune", epilog="Example: indubio tune good.csv --id serial --out tuned.toml")(tune.tune)
app.command("assess", epilog="Example: indubio assess new.csv --model model --out verdicts.csv")(assess.assess)
app.command(
    "learn", epilog="Example: indubio learn labelled.csv --model model --label bad --recent last_week.csv --out learned"
)(learn.learn)
app.command("evaluate", epilog="Example: indubio evaluate verdicts.csv --label bad")(evaluate.evaluate)
app.command("report", epilog="Example: indubio report new.csv --model model --out report.html")(report.report)
app.command("export")(export.export)
app.command("inspect")(inspect.inspect)
app.command(
    "benchmark", epilog="Example: indubio benchmark mine.csv --label bad --detectors default,iforest --out benchmark"
)(benchmark.benchmark)
app.command("reproduce")(reproduce.reproduce)
app.command("config")(config.config)
app.command("serve", epilog="Example: indubio serve --model press=model --training press=good.csv")(serve.serve)
app.add_typer(live.live, name="live")
app.command("mcp")(mcp.mcp)
app.add_typer(keys.keys, name="keys")
app.add_typer(audit.audit, name="audit")
app.add_typer(datasets.datasets, name="datasets")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"indubio {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Anomaly detection that knows when it is in doubt."""
    del version

"""The group `mqcore spark`: the pipelines over topics, stores and archives.

Spark is imported when a pipeline runs, and not before.
"""

import sys

import click

from mqcore.cli.tables import console, print_json, print_table

# What Spark itself would print into the terminal between our lines.
_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
_SPARK_PREFIX = "spark."


@click.group()
def spark() -> None:
    """Run the pipelines: archive, compact, enrich, replay, report, verify.

    They need PySpark and a Java: pip install "mqcore[spark]".
    """


@spark.command("list")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON per pipeline.")
def list_(name: str | None, as_json: bool) -> None:
    """Show what there is, or the settings of the pipeline NAME."""
    from mqcore.spark.setup import need_spark

    need_spark()
    from mqcore.spark.pipelines.running import PIPELINES, pipeline, settings_of, summary

    names = PIPELINES if name is None else (name,)
    if as_json:
        for each in names:
            settings = {one.name: one.default for one in settings_of(each)}
            print_json({"name": each, "does": summary(each), "settings": settings})
    elif name is None:
        print_table(("pipeline", "does"), [(each, summary(each)) for each in PIPELINES])
    else:
        pipeline(name)
        rows = [
            (one.name, one.kind, "must be given" if one.default is None else one.default, one.note)
            for one in settings_of(name)
        ]
        console().print(summary(name))
        print_table(("setting", "is", "default", "what it does"), rows)


@spark.command()
@click.argument("name")
@click.option(
    "-c",
    "--conf",
    "assignments",
    metavar="SETTING=VALUE",
    multiple=True,
    help="A setting of the pipeline; what begins with spark. is one of Spark.",
)
@click.option("--master", help="Where it runs, such as spark://host:7077; this machine by default.")
@click.option("--java", help='A Java home, or "bundled".')
def run(name: str, assignments: tuple[str, ...], master: str | None, java: str | None) -> None:
    """Run the pipeline NAME.

    mqcore spark run archive --conf source=store:/data/store --conf target=/data/archive

    Exit code 1 when it found something (verify: the sides differ), 2 when it failed.
    """
    texts = dict(_assignment(text) for text in assignments)
    from mqcore.spark.setup import need_spark

    need_spark()
    import mqcore.spark
    from mqcore.spark.pipelines.running import bound
    from mqcore.spark.pipelines.running import run as run_pipeline

    own = {key: value for key, value in texts.items() if not key.startswith(_SPARK_PREFIX)}
    # Checked before a JVM is started.
    arguments = bound(name, own)
    config = _QUIET | {key: value for key, value in texts.items() if key not in own}
    if master is None and "spark.master" not in config:
        master = "local[*]"
    session = mqcore.spark.session(f"mqcore {name}", master=master, java=java, config=config)
    try:
        outcome = run_pipeline(session, name, arguments)
    finally:
        session.stop()
    for line in outcome.lines():
        click.echo(line)
    sys.exit(outcome.exit_code)


def _assignment(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"{text!r}: SETTING=VALUE expected", param_hint="--conf")
    return key.strip(), value.strip()

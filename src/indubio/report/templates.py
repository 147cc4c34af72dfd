"""Templates of pages: what comes from outside is escaped, and a name that is missing is an error."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from indubio.report import words


@cache
def page_templates(package: str) -> Environment:
    """The templates in the folder `templates` of a package, with filters that write numbers for people."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: getattr(words, name) for name in ("count", "percent", "number", "point")}
    return environment

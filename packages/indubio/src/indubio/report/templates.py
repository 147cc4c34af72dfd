"""Templates of pages: what comes from outside is escaped, and a name that is missing is an error."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from indubio.report import words
from indubio.texts import gettext, language, ngettext, told


@cache
def page_templates(package: str) -> Environment:
    """The templates in the folder `templates` of a package, with filters that write numbers for people.

    Texts and numbers are in the language of the context at the time of rendering.
    """
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    environment.policies["ext.i18n.trimmed"] = True
    environment.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]
    environment.globals["language"] = language
    # Of what is no literal: unlike `_`, which trusts its text, these are escaped.
    environment.filters |= {"translated": gettext, "told": told}
    environment.filters |= {name: getattr(words, name) for name in ("count", "percent", "number", "point", "decimals")}
    return environment

"""Parameters that are settings themselves, in scikit-learn's way: `posterior__members` is a field of `posterior`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from indubio.errors import ConfigError
from indubio.settings import Settings


class WithSettings(BaseEstimator):  # type: ignore[misc]
    """An estimator among whose parameters are settings."""

    DEFAULTS: ClassVar[Mapping[str, Settings]]  # by parameter: what None stands for

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings by name; with `deep`, also the fields of the settings inside, as `posterior__members`."""
        own: dict[str, Any] = super().get_params(deep=deep)
        if not deep:
            return own
        inner = {
            f"{name}__{field.name}": getattr(value, field.name)
            for name, value in own.items()
            if isinstance(value, Settings)
            for field in dataclasses.fields(value)
        }
        return own | inner

    def set_params(self, **params: Any) -> Self:
        """Change settings; `posterior__members=20` replaces one field of the settings inside."""
        outer = {name: name.partition("__")[0] for name in params}
        whole = {
            name: value
            for name, value in params.items()
            if "__" not in name or hasattr(getattr(self, outer[name], None), "set_params")
        }
        super().set_params(**whole)
        for name in params.keys() - whole.keys():
            settings = getattr(self, outer[name], None) or self._default(outer[name])
            if not isinstance(settings, Settings):
                raise ConfigError(
                    f"`{name}`: {type(self).__name__} has no settings {outer[name]!r} to change a field of."
                )
            setattr(self, outer[name], settings.replaced(**{name.partition("__")[2]: params[name]}))
        return self

    def _with_defaults(self) -> dict[str, Any]:
        """The parameters that have a default in `DEFAULTS`, with it in place of None."""
        return {
            name: self._default(name) if getattr(self, name) is None else getattr(self, name) for name in self.DEFAULTS
        }

    def _default(self, name: str) -> Settings | None:
        """What None stands for, of this parameter."""
        return self.DEFAULTS.get(name)

"""`MergedTable`: the roles of all bindings of one subject, as one table."""

from __future__ import annotations

from collections.abc import Sequence

from kcp_py.authz.rbac.bindings import Binding
from kcp_py.authz.rbac.roletable import Entry, RoleTable
from kcp_py.request.requestinfo import RequestInfo


class MergedTable:
    """What all bindings of one subject allow. A decision does not look at each of thousands of bindings."""

    __slots__ = ("_all", "_large", "_named", "_tables", "_urls")

    def __init__(self) -> None:
        self._all: dict[Entry, Binding] = {}
        """Entries that are allowed for all names."""
        self._named: dict[tuple[Entry, str], Binding] = {}
        self._urls: list[tuple[RoleTable, Binding]] = []
        """Tables with rules for URLs."""
        self._large: list[tuple[RoleTable, Binding]] = []
        """Tables with rules that are too large to have entries."""
        self._tables: dict[int, RoleTable] = {}
        """The tables by identity. One binding of each table is enough: thousands of bindings refer to one role."""

    def add(self, table: RoleTable, binding: Binding) -> None:
        """Add a binding to a role with a table."""
        if id(table) in self._tables:
            return
        self._tables[id(table)] = table
        for entry, names in table.entries.items():
            if names is None:
                self._all.setdefault(entry, binding)
            else:
                for name in names:
                    self._named.setdefault((entry, name), binding)
        if table.urls:
            self._urls.append((table, binding))
        if table.large:
            self._large.append((table, binding))

    def find(self, info: RequestInfo, entries: Sequence[Entry]) -> Binding | None:
        """A binding that allows a request."""
        if not self._all.keys().isdisjoint(entries):
            return next(self._all[entry] for entry in entries if entry in self._all)
        if self._named:
            for entry in entries:
                if (found := self._named.get((entry, info.name))) is not None:
                    return found
        for table, binding in self._large if info.is_resource else self._urls:
            if table.allows(info, ()):
                return binding
        return None

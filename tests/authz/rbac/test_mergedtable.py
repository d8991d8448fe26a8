"""A merged table answers as the tables that it merges, one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcp_py.authz.rbac.bindings import Binding, parse_binding
from kcp_py.authz.rbac.mergedtable import MergedTable
from kcp_py.authz.rbac.roletable import entries_of, plain_table, table_of
from tests.authz.rbac.generated import ALL_REQUESTS, some_rules


def bindings(count: int) -> list[Binding]:
    return [parse_binding(("", f"b-{number}"), {"roleRef": {"kind": "ClusterRole", "name": f"r-{number}"}}) for number in range(count)]


@given(st.lists(st.tuples(some_rules(), st.booleans()), max_size=4))
def test_merged_tables_decide_as_each_of_their_tables(roles):
    """A request is allowed if one of the tables allows it, by the binding of such a table, also where tables have no entries."""
    merged = MergedTable()
    tables = [plain_table(rules) if plain else table_of(rules) for rules, plain in roles]
    bound = bindings(len(tables))
    for table, binding in zip(tables, bound, strict=True):
        merged.add(table, binding)
    for info in ALL_REQUESTS:
        allowing = [binding for table, binding in zip(tables, bound, strict=True) if table.allows(info, entries_of(info))]
        found = merged.find(info, entries_of(info))
        assert (found in allowing) if allowing else found is None, info


@given(some_rules())
def test_one_binding_of_a_table_is_kept(rules):
    """Later bindings to a table that was added before change no answer."""
    merged, table = MergedTable(), table_of(rules)
    first, second = bindings(2)
    merged.add(table, first)
    merged.add(table, second)
    assert all(merged.find(info, entries_of(info)) in (first, None) for info in ALL_REQUESTS)

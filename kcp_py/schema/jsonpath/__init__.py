"""The JSONPath dialect of printer columns.

Belongs here: parsing expressions (`parser`) and evaluating them (`steps`). Does not belong here: what the values become in
a cell of a table.
"""

"""What the server tells about itself: metric definitions, log set-up, audit ids.

Belongs here: definitions and sinks without any knowledge of requests or resources. Does not belong here: deciding what is recorded
(the filters and whoever else records), third-party exporters.
"""

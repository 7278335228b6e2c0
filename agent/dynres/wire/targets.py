"""What an agent measures, as one text: a resource, or one instance of a shared resource.

`RESOURCE` where each host has its own, `RESOURCE/INSTANCE` for a shared instance. Names of
resources hold no slash, so the first one parts the two.
"""


def target(resource: str, instance: str | None) -> str:
    """The text for a resource, or for one of its shared instances."""
    return resource if instance is None else f"{resource}/{instance}"


def resource_of(name: str) -> str:
    """The resource that a target belongs to."""
    return name.partition("/")[0]


def instance_of(name: str) -> str | None:
    """The id of the shared instance; None where each host has its own."""
    return name.partition("/")[2] or None

"""Values as JSON, the same way on both sides of a comparison; imported by tests and by `answer.py`."""


def plain(value):
    """A value as JSON that keeps integers, floats and texts apart."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {"mapping": {str(key): plain(item) for key, item in value.items()}}
    return {"kind": type(value).__name__, "text": str(value)[:200]}

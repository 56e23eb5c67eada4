"""The settings of a broker as it shows them (GET_BROKER_CONFIG, 26): a line each. Pure values."""


def settings_in(body: bytes) -> dict[str, str]:
    """Returns the settings in the body of an answer, by their official keys.

    Keys and values are without blanks around them; comments and lines without a sign are left out.
    """
    lines = body.decode("utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}

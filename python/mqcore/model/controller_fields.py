"""Fields of requests to controllers that RocketMQ does not have, named once for both ends.

A controller of RocketMQ ignores them. Knows no request.
"""

from typing import Final

__all__ = ["CHECK_CODE", "DECIDES", "HOLDER", "PROOFS"]

# What names the process of a broker, `address;time;random`; of 1013 it is an official field.
CHECK_CODE: Final = "registerCheckCode"
# Check codes of earlier processes on the same directory, with commas between them (1003).
PROOFS: Final = "mqcoreCheckCodes"
# In the answer to 1006: the controller itself decides which of two processes has an id.
DECIDES: Final = "mqcoreDecidesIds"
# In a refusal of 1003 or 1004: where the broker is that has the id.
HOLDER: Final = "brokerAddress"

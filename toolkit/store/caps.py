"""How much of one span is kept: names and texts come from outside, and may come without end."""

from typing import Final

MOST_ATTRIBUTES: Final = 256
"""Of a span, an event or a resource; the first ones are kept."""
LONGEST_NAME: Final = 256
"""Characters of an attribute's name; longer ones are dropped with their value."""
LONGEST_TEXT: Final = 1 << 16
"""Characters of a value; the rest is cut off."""
MOST_ITEMS: Final = 1_024
"""Of a list or a map inside a value."""
MOST_EVENTS: Final = 1_024
"""Of a span; the first ones are kept, for they tell when the first chunk came."""

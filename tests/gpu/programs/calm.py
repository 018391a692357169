"""Weights whose products leave a card below its power limit, where steps are to tell a share.

At the limit the clock falls, and a cap, which lets the card rest, raises it again: more would be
done in the same time than natively, and steps would not say what part of the time a program had.
How much power a product takes depends on its values, and zeros take the least; how long it takes
depends on the clock alone. Knows no framework.
"""

# So much of a matrix is not zero: enough that each sum has terms, from a thousand columns on.
KEPT = 1 / 64


def thinned(values, chances):
    """`values` where `chances`, drawn from [0, 1), are small, and zeros elsewhere.

    Normal values become a square matrix that leaves about as large what is multiplied with it.
    """
    return values * (chances < KEPT) * (KEPT * len(values)) ** -0.5

"""Two candidates over the same items: the interval of the difference of their shares, and how many items it needs.

`gained` items are passed by the candidate alone, `lost` ones by the baseline alone; both are a part of `n`.
"""

from __future__ import annotations

import math
from typing import Final

from scipy import optimize, special

ONE_SIDED_LEVEL: Final = 0.95
POWER: Final = 0.80


def tango_statistic(gained: float, lost: float, n: float, difference: float) -> float:
    """Tango's score statistic of the hypothesis that the true difference is `difference` (in (-1, 1)).

    Statistics in Medicine 17 (1998) 891-908: the observed less the assumed difference over its standard error, in
    which the share of losses is estimated by maximum likelihood under the hypothesis.
    """
    a = 2 * n
    b = (2 * n - gained + lost) * difference - gained - lost
    c = -lost * difference * (1 - difference)
    loss = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = n * (2 * loss + difference * (1 - difference))
    distance = gained - lost - n * difference
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def tango_interval(gained: float, lost: float, n: float, *, critical: float) -> tuple[float, float]:
    """The differences that the score statistic does not reject; `critical` 1.645 makes each end a one-sided 95 % bound.

    Counts may be fractions (effective sizes). Raises ValueError for counts that are not part of n.
    """
    if gained < 0 or lost < 0 or n <= 0 or gained + lost > n * (1 + 1e-12):
        raise ValueError("a paired difference needs gained >= 0, lost >= 0 and gained + lost <= n, n > 0")
    return _lower(gained, lost, n, critical), -_lower(lost, gained, n, critical)


def _lower(gained: float, lost: float, n: float, critical: float) -> float:
    observed = (gained - lost) / n
    edge = 1e-12
    if tango_statistic(gained, lost, n, -1 + edge) <= critical:
        return -1.0
    return float(
        optimize.brentq(
            lambda difference: tango_statistic(gained, lost, n, difference) - critical,
            -1 + edge,
            min(observed, 1 - edge),
            xtol=1e-12,
        )
    )


def difference_interval(gained: float, lost: float, n: float, *, level: float, critical: float) -> tuple[float, float]:
    """One-sided bounds at `level` of (share of the candidate - share of the baseline), each used on its own.

    Tango's, which holds its level where items change in both directions. Where none or all changes go one way, the
    difference is a single binomial share, which has an exact bound (Clopper & Pearson 1934); the wider of the two
    counts. So no change at all among n items still allows a loss of 1 - (1 - level)^(1/n), about 3/n, where Tango's
    alone says 2.7/n and a Wald interval says 0.
    """
    low, high = tango_interval(gained, lost, n, critical=critical)
    if gained == 0:
        low = min(low, -_most(lost, n, level))
        high = max(high, -_least(lost, n, level))
    if lost == 0:
        low = min(low, _least(gained, n, level))
        high = max(high, _most(gained, n, level))
    return low, high


def _most(count: float, n: float, level: float) -> float:
    return 1.0 if count >= n else float(special.betaincinv(count + 1, n - count, level))


def _least(count: float, n: float, level: float) -> float:
    return 0.0 if count <= 0 else float(special.betaincinv(count, n - count + 1, 1 - level))


def mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided exact p of "as likely gained as lost" (McNemar 1947, binomial). Beside the verdict, never the gate:
    that it is large does not show that nothing was lost."""
    changed = gained + lost
    return 1.0 if changed == 0 else min(1.0, 2 * float(special.bdtr(min(gained, lost), changed, 0.5)))


def fewest_items(margin: float) -> int:
    """Items without which no pass is possible, even if not one changes: the least n with 1 - 0.05^(1/n) < margin."""
    return math.floor(math.log(1 - ONE_SIDED_LEVEL) / math.log1p(-margin)) + 1


def items_for(margin: float, changed_share: float, *, change: float = 0.0, design_effect: float = 1.0) -> int | None:
    """Items that settle the question with power 80 % at the one-sided 5 % level if `change` is the true one.

    (z_0.95 + z_0.80)^2 (share changed - change^2) / (margin + change)^2 times the design effect: the normal
    approximation for a paired difference (Liu et al., Statistics in Medicine 21 (2002) 231-245). None where the
    change is the margin itself: no number of items tells them apart.
    """
    distance = margin + change
    if abs(distance) < 1e-9:
        return None
    z = float(special.ndtri(ONE_SIDED_LEVEL) + special.ndtri(POWER))
    needed = math.ceil(z**2 * max(changed_share - change**2, 0.0) / distance**2 * design_effect - 1e-9)
    return max(needed, fewest_items(margin))


def smallest_visible_loss(n: float, changed_share: float) -> float:
    """The loss (a share of items) that n items would tell from none with power 80 %: what a suite can see at all."""
    z = float(special.ndtri(ONE_SIDED_LEVEL) + special.ndtri(POWER))
    return max(z * math.sqrt(changed_share / n), -math.expm1(math.log(1 - ONE_SIDED_LEVEL) / n))

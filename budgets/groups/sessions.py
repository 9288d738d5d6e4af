"""Which trajectories belong to one session: what varies independently of the rest."""

import numpy as np

from hopbudget.budgets.profile import Ints, Profile


def sessions(profile: Profile) -> Ints:
    """A number for each trajectory's session; one without a session is its own."""
    t = profile.trajectories
    keys = [str(session) or f"\0{row}" for row, session in enumerate(t.session)]
    return np.unique(np.array(keys), return_inverse=True)[1].astype(np.int64)

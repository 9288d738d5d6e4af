"""Arrays of observed trajectories in, answers about deadlines out. No files, no clock."""

from hopbudget.budgets.allocate import allocate, deadline_at
from hopbudget.budgets.allocation import (
    BINDS,
    METHODS,
    SLOT_KINDS,
    Allocation,
    Binds,
    CannotAllocateError,
    Feasibility,
    Learned,
    Method,
    Share,
    Slot,
    SlotKind,
    StreamBudget,
)
from hopbudget.budgets.causes import CAUSE_KINDS, CauseKind, Causes, Part, Reference, explain
from hopbudget.budgets.profile import Hops, Profile, Trajectories, Works
from hopbudget.budgets.quantiles import attained_quantile, plain_quantile

__all__ = [
    "BINDS",
    "CAUSE_KINDS",
    "METHODS",
    "SLOT_KINDS",
    "Allocation",
    "Binds",
    "CannotAllocateError",
    "CauseKind",
    "Causes",
    "Feasibility",
    "Hops",
    "Learned",
    "Method",
    "Part",
    "Profile",
    "Reference",
    "Share",
    "Slot",
    "SlotKind",
    "StreamBudget",
    "Trajectories",
    "Works",
    "allocate",
    "attained_quantile",
    "deadline_at",
    "explain",
    "plain_quantile",
]

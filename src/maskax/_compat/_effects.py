"""Effects: what keeps an equation that has no results in use in the program."""

from jax._src import effects

Effect = effects.Effect


def allow_everywhere(effect: type) -> None:
    """Allows an effect inside loops and branches, own derivatives and checkpoints, none of which may drop it."""
    for allowed in (
        effects.control_flow_allowed_effects,
        effects.custom_derivatives_allowed_effects,
        effects.remat_allowed_effects,
        effects.partial_eval_kept_effects,
    ):
        allowed.add_type(effect)

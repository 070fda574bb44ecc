"""The errors that users meet. Each message names what, where (the user's source line) and what to do instead."""


class MaskaxError(Exception):
    """Base class of every error that maskax raises."""


class SpecError(MaskaxError, ValueError):
    """A shape string, a tree of them, or an array's rank does not fit the arguments."""


class ShapeError(MaskaxError, ValueError):
    """The logical shape of an output is not the declared one."""


class SizeError(MaskaxError, ValueError):
    """A size is missing, unknown, not an integer, or out of the range 0..padded size."""


class MissingRuleError(MaskaxError, NotImplementedError):
    """A primitive in the traced program has no masking rule."""


class UnmaskableError(MaskaxError, NotImplementedError):
    """The program, as written, has no masked form: the message says why and what to write instead."""


class CheckError(MaskaxError, AssertionError):
    """A function failed `maskax.testing.check` or `check_padded`.

    Attributes:
        where: which result or gradient is wrong: `"output[0]"`, `"gradient by args[1]['w']"`.
        row: the sizes of the row that it is wrong in; `None` for a gradient that is a sum over rows.
        position: the first wrong element.
        step: the first step of the program that differs, if it was found.
    """

    def __init__(
        self,
        message: str,
        where: str = "",
        row: dict[str, int] | None = None,
        position: tuple[int, ...] = (),
        step: str | None = None,
    ) -> None:
        super().__init__(message)
        self.where, self.row, self.position, self.step = where, row, position, step

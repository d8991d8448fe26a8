"""Tokens -> tree, macros expanded on the way (cel-spec, "Syntax" and "Macros"; the limits are cel-go's).

A descent with a few frames for each level of nesting; binary operators are climbed in a loop. Chains of `&&` and `||` become balanced
trees, as in cel-go, so that long ones are not deep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from kcp_py.cel import lexer, operators
from kcp_py.cel.errors import CompileError, Issue, too_deep
from kcp_py.cel.expander import Expander, MacroError
from kcp_py.cel.syntax import (
    Call,
    Constant,
    Entry,
    Expression,
    Identifier,
    ListLiteral,
    MacroCall,
    MapLiteral,
    Select,
    StructEntry,
    StructLiteral,
    children,
    qualified_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcp_py.cel.declarations import Macro
    from kcp_py.cel.lexer import Token

__all__ = ["parse"]

_MAX_LENGTH: Final = 100_000
# cel-go stops at 250 rules inside one another. A level of parentheses takes five of Python's frames here, one of the tree four later on.
_MAX_NESTING: Final = 120
_MAX_DEPTH: Final = 150
_MAX_NODES: Final = 100_000
_MAX_COPIES: Final = 10_000
_RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
        *("package", "namespace", "return", "var", "void", "while"),
    }
)
_BINARY: Final = {
    "==": (1, operators.EQUALS),
    "!=": (1, operators.NOT_EQUALS),
    "<": (1, operators.LESS),
    "<=": (1, operators.LESS_EQUALS),
    ">": (1, operators.GREATER),
    ">=": (1, operators.GREATER_EQUALS),
    "in": (1, operators.IN),
    "+": (2, operators.ADD),
    "-": (2, operators.SUBTRACT),
    "*": (3, operators.MULTIPLY),
    "/": (3, operators.DIVIDE),
    "%": (3, operators.MODULO),
}
_OPERAND_STARTS: Final = "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"


class _SyntaxError(Exception):
    """The text cannot be read any further."""

    def __init__(self, message: str, position: int) -> None:
        """Keep what and where."""
        self.issue = Issue(message, position)
        super().__init__(message)


def parse(text: str, macros: Mapping[tuple[str, int | None, bool], Macro]) -> Expression:
    """The tree of an expression.

    Args:
        text: the source.
        macros: by (function, number of arguments or None, written on a receiver), as `Environment.macros` has them.

    Raises:
        CompileError: the text is not an expression, too long or too deep, or a macro is misused.
    """
    if len(text) > _MAX_LENGTH:
        raise CompileError("", (Issue(f"expression code point size exceeds limit: size: {len(text)}, limit {_MAX_LENGTH}", 0),))
    try:
        return _Parser(text, macros).whole()
    except (lexer.LexicalError, MacroError, _SyntaxError) as error:
        raise CompileError(text, (error.issue,)) from error
    except RecursionError as error:
        raise too_deep(text) from error


class _Parser:
    """One run over one text."""

    __slots__ = ("_at", "_copies", "_depth", "_ids", "_macros", "_tokens")

    def __init__(self, text: str, macros: Mapping[tuple[str, int | None, bool], Macro]) -> None:
        """Read the tokens."""
        self._tokens = lexer.tokens(text)
        self._macros = macros
        self._at = 0
        self._depth = 0
        self._ids = 0
        self._copies = 0

    def new_id(self, position: int) -> int:
        """The next node's id.

        Raises:
            _SyntaxError: macros inside macros made the tree too large.
        """
        self._ids += 1
        if self._ids > _MAX_NODES:
            msg = f"expression node count exceeds limit: {_MAX_NODES}"
            raise _SyntaxError(msg, position)
        return self._ids

    def new_copy(self, position: int) -> int:
        """The next node's id, for a macro that needs a tree twice: chains of such macros double what they copy with every link.

        Raises:
            _SyntaxError: they did so too often.
        """
        self._copies += 1
        if self._copies > _MAX_COPIES:
            msg = f"expression node count exceeds limit: {_MAX_COPIES}"
            raise _SyntaxError(msg, position)
        return self.new_id(position)

    def whole(self) -> Expression:
        """The expression and nothing behind it."""
        root = self._expression()
        token = self._tokens[self._at]
        if token.kind != lexer.END:
            last = self._tokens[self._at + 1].kind == lexer.END
            self._fail(token, f"{'extraneous' if last else 'mismatched'} input '{token.text}' expecting {lexer.END}")
        self._check_depth(root)
        return root

    def _check_depth(self, root: Expression) -> None:
        """Refuse a tree that the next stages could not walk: left-leaning chains and macros are deep without being nested."""
        level, depth = [root], 0
        while level:
            depth += 1
            if depth > _MAX_DEPTH:
                msg = f"expression recursion limit exceeded: {_MAX_DEPTH}"
                raise _SyntaxError(msg, level[0].position)
            level = [child for node in level for child in children(node)]

    def _expression(self) -> Expression:
        """`condition ? value : value`, or a disjunction."""
        self._depth += 1
        if self._depth > _MAX_NESTING:
            msg = f"expression recursion limit exceeded: {_MAX_NESTING}"
            raise _SyntaxError(msg, self._tokens[self._at].position)
        condition = self._disjunction()
        question = self._take("?")
        if question is not None:
            number = self.new_id(question.position)
            value = self._disjunction()
            self._expect(":")
            condition = Call(number, question.position, operators.CONDITIONAL, None, (condition, value, self._expression()))
        self._depth -= 1
        return condition

    def _disjunction(self) -> Expression:
        """`a || b && c == d + e * f`: everything that binary operators join."""
        alternatives: list[Expression] = []
        ors: list[Token] = []
        while True:
            conjuncts: list[Expression] = []
            ands: list[Token] = []
            while True:
                operands = [self._operand()]
                pending: list[tuple[int, str, Token]] = []
                while (binary := _BINARY.get((token := self._tokens[self._at]).kind)) is not None:
                    self._at += 1
                    while pending and pending[-1][0] >= binary[0]:
                        self._reduce(operands, pending)
                    pending.append((*binary, token))
                    operands.append(self._operand())
                while pending:
                    self._reduce(operands, pending)
                conjuncts.append(operands[0])
                if (token_and := self._take("&&")) is None:
                    break
                ands.append(token_and)
            alternatives.append(self._balanced(operators.AND, conjuncts, ands))
            if (token_or := self._take("||")) is None:
                break
            ors.append(token_or)
        return self._balanced(operators.OR, alternatives, ors)

    def _reduce(self, operands: list[Expression], pending: list[tuple[int, str, Token]]) -> None:
        """Join the two last operands by the last operator."""
        _, function, token = pending.pop()
        right = operands.pop()
        operands.append(Call(self.new_id(token.position), token.position, function, None, (operands.pop(), right)))

    def _balanced(self, function: str, terms: Sequence[Expression], joints: Sequence[Token]) -> Expression:
        """A chain of one associative operator as a tree of logarithmic depth."""
        if not joints:
            return terms[0]
        middle = len(joints) // 2
        token = joints[middle]
        number = self.new_id(token.position)
        left = self._balanced(function, terms[: middle + 1], joints[:middle])
        right = self._balanced(function, terms[middle + 1 :], joints[middle + 1 :])
        return Call(number, token.position, function, None, (left, right))

    def _operand(self) -> Expression:
        """Signs, a primary, and all that is written behind it: `.f`, `.?f`, `.f()`, `[i]`, `[?i]`."""
        signs: list[Token] = []
        while (token := self._tokens[self._at]).kind in {"!", "-"} and (not signs or token.kind == signs[0].kind):
            if token.kind == "-" and not signs and self._tokens[self._at + 1].kind in {"int", "float"}:
                break
            signs.append(token)
            self._at += 1
        value = self._primary()
        while True:
            token = self._tokens[self._at]
            if token.kind == ".":
                self._at += 1
                optional = self._take("?") is not None
                name = self._expect("name")
                opening = None if optional else self._take("(")
                if opening is not None:
                    value = self._call(opening, name.text, value, self._elements(")"))
                elif optional:
                    number = self.new_id(token.position)
                    field = Constant(self.new_id(token.position), token.position, name.text)
                    value = Call(number, token.position, operators.OPTIONAL_SELECT, None, (value, field))
                else:
                    value = Select(self.new_id(token.position), token.position, value, name.text)
            elif token.kind == "[":
                self._at += 1
                function = operators.OPTIONAL_INDEX if self._take("?") is not None else operators.INDEX
                number = self.new_id(token.position)
                index = self._expression()
                self._expect("]")
                value = Call(number, token.position, function, None, (value, index))
            elif token.kind == "{" and (qualified := qualified_name(value)) is not None:
                self._at += 1
                value = StructLiteral(self.new_id(token.position), token.position, qualified, self._fields())
            else:
                break
        if len(signs) % 2:
            function = operators.NOT if signs[0].kind == "!" else operators.NEGATE
            value = Call(self.new_id(signs[0].position), signs[0].position, function, None, (value,))
        return value

    def _primary(self) -> Expression:
        """A literal, a name, a call, a list, a map, or an expression in parentheses."""
        token = self._tokens[self._at]
        self._at += 1
        match token.kind:
            case "(":
                value = self._expression()
                self._expect(")")
                return value
            case "[":
                number = self.new_id(token.position)
                elements, optional = self._elements_with_options("]")
                return ListLiteral(number, token.position, elements, optional)
            case "{":
                number = self.new_id(token.position)
                return MapLiteral(number, token.position, self._entries())
            case "name":
                return self._named(token, "")
            case "." if self._tokens[self._at].kind == "name":
                self._at += 1
                return self._named(self._tokens[self._at - 1], ".")
            case _:
                return Constant(self.new_id(token.position), token.position, self._literal(token))

    def _named(self, token: Token, prefix: str) -> Expression:
        """A variable or a global call."""
        if token.text in _RESERVED:
            msg = f"reserved identifier: {token.text}"
            raise _SyntaxError(msg, token.position)
        opening = self._take("(")
        if opening is None:
            return Identifier(self.new_id(token.position), token.position, prefix + token.text)
        return self._call(opening, prefix + token.text, None, self._elements(")"))

    def _call(self, opening: Token, function: str, target: Expression | None, args: tuple[Expression, ...]) -> Expression:
        """A call, or what the macro of this form makes of it."""
        form = (function, len(args), target is not None)
        macro = self._macros.get(form) or self._macros.get((function, None, target is not None))
        if macro is not None:
            expanded: Expression | None = macro.expand(Expander(opening.position, self.new_id, self.new_copy), target, args)
            if expanded is not None:
                expanded.macro = MacroCall(function, target, args)
                return expanded
        return Call(self.new_id(opening.position), opening.position, function, target, args)

    def _literal(self, token: Token) -> object:
        """The value of a literal; `token` has been taken."""
        match token.kind:
            case "null":
                return None
            case "true" | "false":
                return token.kind == "true"
            case "string":
                return lexer.string_of(token)
            case "bytes":
                return lexer.bytes_of(token)
            case "-":
                self._at += 1
                return self._number(self._tokens[self._at - 1], "-")
            case _:
                return self._number(token, "")

    def _number(self, token: Token, sign: str) -> int | float:
        """The value of a number; `token` has been taken. A token that is not a number is not a literal."""
        if token.kind in {"int", "float"} or (token.kind == "uint" and not sign):
            return lexer.number_of(token, sign)
        fault = "mismatched" if token.kind == lexer.END else "extraneous"
        return self._fail(token, f"{fault} input '{token.text}' expecting {{{_OPERAND_STARTS}}}")

    def _elements(self, closing: str) -> tuple[Expression, ...]:
        """Expressions between commas up to `closing`, which is taken."""
        elements: list[Expression] = []
        if self._take(closing) is None:
            elements.append(self._expression())
            while self._take(",") is not None:
                elements.append(self._expression())
            self._expect(closing)
        return tuple(elements)

    def _elements_with_options(self, closing: str) -> tuple[tuple[Expression, ...], tuple[int, ...]]:
        """The elements of a list literal, which may have `?` before them and a comma after the last."""
        elements: list[Expression] = []
        optional: list[int] = []
        while self._take(closing) is None:
            if self._take("?") is not None:
                optional.append(len(elements))
            elements.append(self._expression())
            if self._take(",") is None:
                self._expect(closing)
                break
        return tuple(elements), tuple(optional)

    def _entries(self) -> tuple[Entry, ...]:
        """The entries of a map literal."""
        entries: list[Entry] = []
        while self._take("}") is None:
            optional = self._take("?") is not None
            key = self._expression()
            colon = self._expect(":")
            number = self.new_id(colon.position)
            entries.append(Entry(number, key, self._expression(), optional))
            if self._take(",") is None:
                self._expect("}")
                break
        return tuple(entries)

    def _fields(self) -> tuple[StructEntry, ...]:
        """The fields of an object literal."""
        entries: list[StructEntry] = []
        while self._take("}") is None:
            optional = self._take("?") is not None
            name = self._expect("name")
            colon = self._expect(":")
            number = self.new_id(colon.position)
            entries.append(StructEntry(number, colon.position, name.text, self._expression(), optional))
            if self._take(",") is None:
                self._expect("}")
                break
        return tuple(entries)

    def _take(self, kind: str) -> Token | None:
        """The next token if it is of this kind."""
        token = self._tokens[self._at]
        if token.kind != kind:
            return None
        self._at += 1
        return token

    def _expect(self, kind: str) -> Token:
        """The next token, which has to be of this kind."""
        token = self._take(kind)
        if token is None:
            wanted = "IDENTIFIER" if kind == "name" else f"'{kind}'"
            self._fail(self._tokens[self._at], f"mismatched input '{self._tokens[self._at].text}' expecting {wanted}")
        return token

    def _fail(self, token: Token, message: str) -> NoReturn:
        """Give up at `token`."""
        raise _SyntaxError(f"Syntax error: {message}", token.position)

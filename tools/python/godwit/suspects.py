"""Places in a program's sources that are known to make results depend on more than the state and the shard.

What is found here is a hint for people: ``check`` asks for it where results differ, and never before.
"""
from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Set, Tuple, Union


class Symptom(enum.Enum):
    """In which way something is not pure. The value is for people."""

    HISTORY = "it depends on what its process computed before"
    PROCESS = "it differs from process to process"
    HASHES = "it depends on the order of a set or on hash()"
    PARTS = "parts of an update count apart what they are to change alike"
    REFUSED = "no job can do it"


_GENERATOR = "a generator of its own, which goes on from shard to shard: seed it by s.generator_seed"
_SYSTEM = "a generator that the system seeds"
_TIME = "the time"
_CACHE = "a cache, which makes results depend on who computed first"
_THREAD = "a thread, whose results come in any order"
_QUEUE = "a queue, which another thread or process fills in any order"
_DATA_LOADER = "a DataLoader, which goes on from shard to shard: use s.indices or godwit.Loader"
_SEEDING = "seeding within the program: generators are seeded for each shard"
_AUTOCAST = "autocast that stays on behind the shard: use it by 'with', within the shard function"
_COMPILE = "torch.compile, whose code may depend on the shapes that came before"
_NAME = "the name of its process"
_SET = "the order of a set: use sorted()"
_ADDRESS = "the address of an object, by id(): number the objects yourself"
_ITERATOR = "an iterator that goes on from shard to shard: use s.indices"
_DEFAULT = "a default argument, which outlives the call"
_GROUPS = "a number in param_groups that the optimizer changes in its step: give parts=1"
_MOMENTUM = "BatchNorm with momentum=None: give a momentum, such as 0.1"
_SPARSE = "sparse=True: leave it out"
_SCALER = "GradScaler: use bfloat16, which needs none"

_CALLS: Dict[str, Tuple[str, ...]] = {
    _GENERATOR: ("torch.Generator", "default_rng", "RandomState", "random.Random", "Generator"),
    _TIME: (
        "time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic", "perf_counter",
        "datetime.now", "datetime.utcnow", "datetime.today",
    ),
    _SYSTEM: ("os.urandom", "SystemRandom", "secrets.", "uuid."),
    _CACHE: ("lru_cache", "functools.cache", "cache"),
    _THREAD: ("Thread", "ThreadPoolExecutor"),
    _QUEUE: ("Queue", "SimpleQueue"),
    _DATA_LOADER: ("DataLoader",),
    _SEEDING: ("manual_seed", "random.seed", "torch.seed", "set_rng_state"),
    _AUTOCAST: ("set_autocast_enabled", "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_cache_enabled"),
    _COMPILE: ("torch.compile",),
    _NAME: ("os.getpid", "getpid", "gethostname", "get_ident"),
    _SET: ("set", "frozenset", "hash"),
    _ADDRESS: ("id",),
    _ITERATOR: ("iter", "next", "itertools.cycle", "count", "cycle"),
    _SCALER: ("GradScaler",),
}  # fmt: skip
_ORDERLESS = ("sorted", "len", "min", "max", "any", "all")
"""Functions in which the order of a set makes no difference."""
_WHOLE_NAMES = ("set", "next", "iter", "hash", "cache", "id", "count", "cycle", "Generator")
"""Names that count only as they are, not as the last part of a longer one."""

_VARIABLE, _CHANGE = "a variable", "a change in place"

_FITS: Dict[Symptom, Tuple[str, ...]] = {
    Symptom.HISTORY: (
        _GENERATOR, _CACHE, _THREAD, _QUEUE, _DATA_LOADER, _SEEDING, _AUTOCAST, _COMPILE, _ITERATOR, _TIME, _SYSTEM, _VARIABLE,
        _CHANGE, _DEFAULT,
    ),
    Symptom.PROCESS: (_TIME, _SYSTEM, _NAME, _ADDRESS, _SEEDING, _THREAD, _QUEUE, _GENERATOR, _SET),
    Symptom.HASHES: (_SET, _NAME, _ADDRESS, _TIME, _SYSTEM),
    Symptom.PARTS: (_GROUPS, _VARIABLE),
    Symptom.REFUSED: (_MOMENTUM, _SPARSE, _SCALER),
}  # fmt: skip

_CONTAINER = ("append", "add", "update", "pop", "popleft", "extend", "setdefault", "put", "insert", "clear")
_VIEWS = ("view", "reshape", "t", "transpose", "permute", "narrow", "detach", "flatten", "squeeze", "unsqueeze", "numpy",
          "select", "flat", "ravel")  # fmt: skip


@dataclass(frozen=True)
class Suspect:
    """A place in the program that is known to cause what was found."""

    file: str
    line: int
    what: str


def _dotted(node: ast.expr) -> str:
    parts: List[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    if isinstance(at, ast.Name):
        parts.append(at.id)
    return ".".join(reversed(parts))


def _is_named(name: str, pattern: str) -> bool:
    if pattern.endswith("."):
        return name.startswith(pattern)
    return name == pattern or (name.endswith("." + pattern) and pattern not in _WHOLE_NAMES)


def _is_autocast(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _dotted(node.func).rpartition(".")[2] == "autocast"


def _has_groups(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "param_groups" for n in ast.walk(node))


_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda]


@dataclass
class _Scope:
    """The names of a function. ``aliases`` are those that are views of something that outlives the call."""

    names: Set[str]
    aliases: Dict[str, str] = field(default_factory=dict)
    groups: Set[str] = field(default_factory=set)  # names of param_groups' members


def _names(node: ast.AST) -> Set[str]:
    """The names that a module or a function binds, without those of functions and classes in it."""
    found: Set[str] = set()
    away: Set[str] = set()
    pending: List[ast.AST] = list(ast.iter_child_nodes(node))
    while pending:
        at = pending.pop()
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(at.name)
            continue
        if isinstance(at, (ast.Global, ast.Nonlocal)):
            away.update(at.names)
        elif isinstance(at, ast.arg):
            found.add(at.arg)
        elif isinstance(at, ast.Name) and isinstance(at.ctx, ast.Store):
            found.add(at.id)
        if not isinstance(at, ast.Lambda):
            pending += ast.iter_child_nodes(at)
    return found - away


class _Search(ast.NodeVisitor):
    """Collects the suspects of a file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: List[Suspect] = []
        self._scopes: List[_Scope] = []
        self._in_order: Set[int] = set()  # ids of sets whose order is not seen
        self._defined: Set[str] = set()  # functions and classes of the file itself, which are no library's
        self._begins = False  # within __init__, which makes what outlives the shard

    def _add(self, node: ast.AST, what: str) -> None:
        self.found.append(Suspect(self.file, getattr(node, "lineno", 0), what))

    def visit_Module(self, node: ast.Module) -> None:
        jobs = {  # what is changed in a job is refused where it must not be
            target.id
            for n in ast.walk(node) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)
            for target in n.targets if isinstance(target, ast.Name) and _dotted(n.value.func).endswith("Job")
        }  # fmt: skip
        self._scopes.append(_Scope(_names(node) - jobs))
        self._defined = {n.name for n in ast.walk(node) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        self.generic_visit(node)

    def _function(self, node: _Function) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if isinstance(default, (ast.List, ast.Dict, ast.Set)):
                self._add(node, _DEFAULT)
        self._scopes.append(_Scope(_names(node)))
        self.generic_visit(node)
        self._scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            name = _dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name.rpartition(".")[2] in ("lru_cache", "cache"):
                self._add(node, _CACHE)
        before, self._begins = self._begins, node.name == "__init__"
        self._function(node)
        self._begins = before

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node)

    def _outliving(self, name: str) -> Optional[str]:
        """What a name stands for that outlives the call of the function it is in; None: nothing does."""
        if len(self._scopes) < 2:
            return None
        here = self._scopes[-1]
        if name in here.names:
            return here.aliases.get(name)
        return name if any(name in scope.names for scope in self._scopes[:-1]) else None

    def _base(self, node: ast.expr) -> Optional[str]:
        """What outlives the call and an expression is, or is a view of."""
        at = node
        while True:
            if isinstance(at, (ast.Subscript, ast.Attribute, ast.Starred)):
                at = at.value
            elif isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute) and at.func.attr in _VIEWS:
                at = at.func.value
            else:
                return self._outliving(at.id) if isinstance(at, ast.Name) else None

    def visit_Call(self, node: ast.Call) -> None:
        name = _dotted(node.func)
        if name in _ORDERLESS and name not in self._defined:
            self._in_order.update(id(given) for given in node.args)
        for what, patterns in _CALLS.items():
            if what == _SET and id(node) in self._in_order:
                continue
            if name not in self._defined and any(_is_named(name, pattern) for pattern in patterns):
                self._add(node, what)
                break
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else 0
            if keyword.arg == "momentum" and value is None:
                self._add(node, _MOMENTUM)
            elif keyword.arg == "sparse" and value is True:
                self._add(node, _SPARSE)
        if isinstance(node.func, ast.Attribute):
            method, owner = node.func.attr, self._base(node.func.value)
            in_place = method.endswith("_") and not method.endswith("__")
            if method == "__enter__" and _is_autocast(node.func.value):
                self._add(node, _AUTOCAST)
            elif owner is not None and (method in _CONTAINER or in_place):
                self._add(node, f"{_CHANGE} of '{owner}', which outlives the shard")
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        runs = any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "run"
            for statement in node.body for n in ast.walk(statement)
        )  # fmt: skip
        if runs and any(_is_autocast(item.context_expr) for item in node.items):
            self._add(node, _AUTOCAST)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        if isinstance(node.target, ast.Name) and _has_groups(node.iter) and self._scopes:
            self._scopes[-1].groups.add(node.target.id)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._in_order.update(id(o) for op, o in zip(node.ops, node.comparators) if isinstance(op, (ast.In, ast.NotIn)))
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        if id(node) not in self._in_order:
            self._add(node, _SET)
        self.generic_visit(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        if id(node) not in self._in_order:
            self._add(node, _SET)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self._add(node, f"{_VARIABLE} '{node.names[0]}' that outlives the shard: keep it in job.vars")

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._add(node, f"{_VARIABLE} '{node.names[0]}' that outlives the shard: keep it in job.vars")

    def _target(self, node: ast.expr, in_place: bool) -> None:
        if isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                self._target(element, in_place)
            return
        base: ast.expr = node
        while isinstance(base, (ast.Subscript, ast.Attribute)):
            base = base.value
        if isinstance(base, ast.Name) and isinstance(node, ast.Subscript):
            if base.id in self._scopes[-1].groups or _has_groups(node):
                self._add(node, _GROUPS)
        if isinstance(node, ast.Name) and not in_place:
            return
        owner = self._base(node)
        if owner is not None:
            self._add(node, f"{_CHANGE} of '{owner}', which outlives the shard")
        elif isinstance(node, ast.Attribute) and isinstance(base, ast.Name) and base.id == "self" and not self._begins:
            self._add(node, f"{_VARIABLE} 'self.{node.attr}' that outlives the shard")

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._target(target, False)
            owner = self._base(node.value)
            if isinstance(target, ast.Name) and owner is not None and not isinstance(node.value, ast.Attribute):
                self._scopes[-1].aliases[target.id] = owner
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._target(node.target, True)
        self.generic_visit(node)


def suspects(files: Sequence[str], symptoms: Sequence[Symptom]) -> List[Suspect]:
    """The places in source files that may cause symptoms, those first that explain the most of them; one place for
    each kind."""
    found: List[Suspect] = []
    for file in files:
        try:
            with open(file, encoding="utf-8") as source:
                tree = ast.parse(source.read(), file)
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        search = _Search(file)
        search.visit(tree)
        found += search.found
    places: Dict[str, Tuple[int, int]] = {}  # of a kind: how many symptoms it fits, and its place among causes of one
    for symptom in symptoms:
        for place, cause in enumerate(_FITS[symptom]):
            count, first = places.get(cause, (0, place))
            places[cause] = (count - 1, min(first, place))
    fitting: Dict[str, Tuple[Tuple[int, int], Suspect]] = {}
    for suspect in found:
        fits = [order for cause, order in places.items() if suspect.what.startswith(cause)]
        if fits and suspect.what not in fitting:
            fitting[suspect.what] = (fits[0], suspect)
    return [suspect for _, suspect in sorted(fitting.values(), key=lambda pair: pair[0])]

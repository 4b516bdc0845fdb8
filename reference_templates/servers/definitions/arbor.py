"""Arbor: conversation trees. A node has a text or a handle to external content; branches share the nodes before them.

All data is under keys of `context.state`, so that concurrent calls never lose changes:

    tree/<tree>                                  root, owners, dates and metadata; changed by compare-and-set
    node/<tree>/<node>                           one node; written once, never changed
    child/<tree>/<parent>/<time>.<kind>.<node>   the link from a parent to a child; only these give the shape of a tree

A tree is active while a caller holds a reference to it. When the last reference is released, the tree is scheduled for
deletion; a week later it is archived: it can be read but not changed. Trees are never destroyed.
"""

import time
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID, uuid4

from pydantic import Field

from patchbay import ResourceNotFound, ToolFailed

_WEEK = 7 * 24 * 3600
_SHOWN = 60
_DEEPEST = 40

Owner = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
State = Literal["active", "scheduled_delete", "archived"]
Kind = Literal["text", "external"]


class Refs(TypedDict):
    """Who holds references, and how many there are in all."""

    ref_count: int
    owners: dict[str, int]


class Node(TypedDict):
    """A node. `data` is `{"type": "text", "content"}` or `{"type": "external", "handle"}`; times are Unix seconds."""

    id: str
    parent: str | None
    children: list[str]
    data: dict[str, Any]
    state: State
    created_at: int
    metadata: dict[str, Any] | None


class NodeSkeleton(TypedDict):
    """A node without what it holds."""

    id: str
    parent: str | None
    children: list[str]
    node_type: Kind


class TreeRecord(TypedDict):
    """A tree; `head` is its newest leaf, times are Unix seconds."""

    id: str
    root: str
    head: str
    state: State
    refs: Refs
    scheduled_deletion_at: int | None
    archived_at: int | None
    created_at: int
    updated_at: int
    metadata: dict[str, Any] | None


class Tree(TreeRecord):
    """A tree with all its nodes by id."""

    nodes: dict[str, Node]


class Skeleton(TreeRecord):
    """A tree without what its nodes hold."""

    nodes: dict[str, NodeSkeleton]


class TreeCreated(TypedDict):
    type: Literal["tree_created"]
    tree_id: str
    root: str


class TreeData(TypedDict):
    type: Literal["tree_data"]
    tree: Tree


class TreeSkeleton(TypedDict):
    type: Literal["tree_skeleton"]
    skeleton: Skeleton


class TreeList(TypedDict):
    type: Literal["tree_list", "trees_scheduled", "trees_archived"]
    tree_ids: list[str]


class TreeUpdated(TypedDict):
    type: Literal["tree_updated"]
    tree_id: str


class TreeCounted(TypedDict):
    type: Literal["tree_claimed", "tree_released"]
    tree_id: str
    owner_id: str
    new_count: int
    state: State


class NodeCreated(TypedDict):
    type: Literal["node_created"]
    tree_id: str
    node_id: str
    parent: str


class NodeData(TypedDict):
    type: Literal["node_data"]
    tree_id: str
    node: Node


class NodeChildren(TypedDict):
    type: Literal["node_children"]
    tree_id: str
    node_id: str
    children: list[str]


class NodeParent(TypedDict):
    type: Literal["node_parent"]
    tree_id: str
    node_id: str
    parent: str | None


class ContextPath(TypedDict):
    type: Literal["context_path"]
    tree_id: str
    path: list[str]


class ContextLeaves(TypedDict):
    type: Literal["context_leaves"]
    tree_id: str
    leaves: list[str]


class ContextPathData(TypedDict):
    type: Literal["context_path_data"]
    tree_id: str
    nodes: list[Node]


class ContextHandles(TypedDict):
    type: Literal["context_handles"]
    tree_id: str
    handles: list[dict[str, Any]]


# Trees


def tree_create(context, metadata: dict[str, Any] | None = None, owner_id: Owner = "system") -> TreeCreated:
    """Make a new tree with an empty root node.

    Args:
        metadata: What to remember of the tree, such as its name.
        owner_id: Who gets the first reference to it.
    """
    tree, root, made = str(uuid4()), str(uuid4()), time.time_ns()
    now = made // 10**9
    record = {"id": tree, "root": root, "owners": {owner_id: 1}, "released_at": None, "created_at": now, "made": made}
    node = _new_node(root, None, {"type": "text", "content": ""}, None, now)
    kept = {f"tree/{tree}": record | {"updated_at": now, "metadata": metadata}, f"node/{tree}/{root}": node}
    context.state.swap(kept, dict.fromkeys(kept))
    context.changed("resources")
    return {"type": "tree_created", "tree_id": tree, "root": root}


def tree_get(context, tree_id: UUID) -> TreeData:
    """Get a tree with all its nodes and what they hold.

    Args:
        tree_id: The tree.
    """
    tree = _tree(context, tree_id)
    shape = _Shape(context, tree)
    return {"type": "tree_data", "tree": _shown(tree, shape, _nodes(context, tree, shape, shape.kinds))}


def tree_get_skeleton(context, tree_id: UUID) -> TreeSkeleton:
    """Get what a tree looks like, without what its nodes hold.

    Args:
        tree_id: The tree.
    """
    return {"type": "tree_skeleton", "skeleton": _skeleton(context, _tree(context, tree_id))}


def tree_list(context) -> TreeList:
    """List the active trees, oldest first."""
    return {"type": "tree_list", "tree_ids": _in_state(context, "active")}


def tree_update_metadata(context, tree_id: UUID, metadata: dict[str, Any]) -> TreeUpdated:
    """Put other metadata in the place of a tree's own.

    Args:
        tree_id: The tree.
        metadata: All that is to be remembered of it from now on.
    """
    _change(context, tree_id, lambda tree: {**_open(tree), "metadata": metadata})
    context.changed("resources")
    return {"type": "tree_updated", "tree_id": str(tree_id)}


def tree_claim(context, tree_id: UUID, owner_id: Owner, count: Count = 1) -> TreeCounted:
    """Hold on to a tree: add references of one owner. A tree that was scheduled for deletion is active again.

    Args:
        tree_id: The tree.
        owner_id: Whose references they are.
        count: How many to add.
    """
    before, after = _change(context, tree_id, lambda tree: _counted(tree, owner_id, count))
    if _state(before) != _state(after):
        context.changed("resources")
    return _count("tree_claimed", after, owner_id)


def tree_release(context, tree_id: UUID, owner_id: Owner, count: Count = 1) -> TreeCounted:
    """Let go of a tree: take references of one owner away. Without any left it is scheduled for deletion.

    Args:
        tree_id: The tree.
        owner_id: Whose references they are.
        count: How many to take away.
    """
    before, after = _change(context, tree_id, lambda tree: _counted(tree, owner_id, -count))
    if _state(before) != _state(after):
        context.changed("resources")
    return _count("tree_released", after, owner_id)


def tree_list_scheduled(context) -> TreeList:
    """List the trees without references, oldest first; tree_claim makes one active again."""
    return {"type": "trees_scheduled", "tree_ids": _in_state(context, "scheduled_delete")}


def tree_list_archived(context) -> TreeList:
    """List the archived trees, oldest first: they can be read, and not be changed any more."""
    return {"type": "trees_archived", "tree_ids": _in_state(context, "archived")}


def tree_render(context, tree_id: UUID) -> str:
    """Draw a tree as text, one line for each node; branches are indented, single children are not.

    Args:
        tree_id: The tree.
    """
    tree = _tree(context, tree_id)
    shape = _Shape(context, tree)
    return "\n".join(_drawn(shape, _nodes(context, tree, shape, shape.kinds)))


# Nodes


def node_create_text(
    context,
    tree_id: UUID,
    parent: UUID | None = None,
    *,
    content: str,
    metadata: dict[str, Any] | None = None,
) -> NodeCreated:
    """Add a node that holds a text.

    Args:
        tree_id: The tree.
        parent: The node it comes after; left out, the tree's root.
        content: The text.
        metadata: What to remember of it, such as who said it.
    """
    return _create(context, tree_id, parent, {"type": "text", "content": content}, metadata)


def node_create_external(
    context,
    tree_id: UUID,
    parent: UUID | None = None,
    *,
    handle: Annotated[dict[str, Any], Field(min_length=1)],
    metadata: dict[str, Any] | None = None,
) -> NodeCreated:
    """Add a node that points to something kept elsewhere.

    Args:
        tree_id: The tree.
        parent: The node it comes after; left out, the tree's root.
        handle: Where it is kept, such as {"source": "postgres", "source_version": "1.0.0", "identifier": "42"}.
        metadata: What to remember of it.
    """
    return _create(context, tree_id, parent, {"type": "external", "handle": handle}, metadata)


def node_get(context, tree_id: UUID, node_id: UUID) -> NodeData:
    """Get one node.

    Args:
        tree_id: The tree.
        node_id: The node.
    """
    tree = _tree(context, tree_id)
    return {"type": "node_data", "tree_id": tree["id"], "node": _node(context, tree, str(node_id))}


def node_get_children(context, tree_id: UUID, node_id: UUID) -> NodeChildren:
    """List the nodes that come directly after a node, oldest first.

    Args:
        tree_id: The tree.
        node_id: The node.
    """
    tree, node = _tree(context, tree_id), str(node_id)
    _stored(context, tree, node)
    return {"type": "node_children", "tree_id": tree["id"], "node_id": node, "children": _children(context, tree, node)}


def node_get_parent(context, tree_id: UUID, node_id: UUID) -> NodeParent:
    """Tell which node comes before a node; null for the root.

    Args:
        tree_id: The tree.
        node_id: The node.
    """
    tree, node = _tree(context, tree_id), str(node_id)
    parent = _stored(context, tree, node)["parent"]
    return {"type": "node_parent", "tree_id": tree["id"], "node_id": node, "parent": parent}


def node_get_path(context, tree_id: UUID, node_id: UUID) -> ContextPath:
    """List the nodes from the root to a node, both included.

    Args:
        tree_id: The tree.
        node_id: The node.
    """
    tree = _tree(context, tree_id)
    return {"type": "context_path", "tree_id": tree["id"], "path": _Shape(context, tree).path(str(node_id))}


def context_list_leaves(context, tree_id: UUID) -> ContextLeaves:
    """List the nodes after which nothing comes, oldest first: where a conversation can go on.

    Args:
        tree_id: The tree.
    """
    tree = _tree(context, tree_id)
    return {"type": "context_leaves", "tree_id": tree["id"], "leaves": _Shape(context, tree).leaves()}


def context_get_path(context, tree_id: UUID, node_id: UUID) -> ContextPathData:
    """Get all nodes from the root to a node, with what they hold: the context of a conversation.

    Args:
        tree_id: The tree.
        node_id: The node.
    """
    tree = _tree(context, tree_id)
    return {"type": "context_path_data", "tree_id": tree["id"], "nodes": _path_nodes(context, tree, str(node_id))}


def context_get_handles(context, tree_id: UUID, node_id: UUID) -> ContextHandles:
    """List what the external nodes on the way from the root to a node point to.

    Args:
        tree_id: The tree.
        node_id: The node.
    """
    tree = _tree(context, tree_id)
    data = [node["data"] for node in _path_nodes(context, tree, str(node_id))]
    handles = [one["handle"] for one in data if one["type"] == "external"]
    return {"type": "context_handles", "tree_id": tree["id"], "handles": handles}


# Resources: what stands in the configuration names these.


def _tree_resource(context, tree: str) -> Skeleton:
    return _skeleton(context, _known(context, tree))


def _head_resource(context, tree: str) -> Node:
    found = _known(context, tree, "/head")
    return _node(context, found, _Shape(context, found).head())


def _node_resource(context, tree: str, node: str) -> Node:
    found = _known(context, tree, f"/node/{node}")
    wanted = found["root"] if node == "root" else node
    if f"node/{tree}/{wanted}" not in context.state:
        raise ResourceNotFound(f"arbor://tree/{tree}/node/{node}", "there is no such node in this tree")
    return _node(context, found, wanted)


def _known(context, tree: str, rest: str = "") -> dict[str, Any]:
    """A tree by the name in a URI."""
    found = context.state.get(f"tree/{tree}")
    if found is None:
        raise ResourceNotFound(f"arbor://tree/{tree}{rest}", "there is no such tree")
    return found


def _complete_tree(context, value: str, arguments: dict[str, str]) -> list[str]:
    return _in_state(context, "active")


def _complete_node(context, value: str, arguments: dict[str, str]) -> list[str]:
    tree = context.state.get(f"tree/{arguments.get('tree')}")
    return ["root", *_Shape(context, tree).kinds] if tree else []


# How it is kept.


class _Shape:
    """Which node comes after which: `kinds` has the kind of each node in the order in which they were made."""

    def __init__(self, context, tree: dict[str, Any]) -> None:
        self.root = tree["root"]
        self.parents: dict[str, str] = {}
        self.children: dict[str, list[str]] = {}
        made = []
        for key in context.state.starting(f"child/{tree['id']}/"):
            _, _, parent, rest = key.split("/")
            at, kind, node = rest.split(".")
            made.append((at, node, kind))
            self.parents[node] = parent
            self.children.setdefault(parent, []).append(node)
        self.kinds: dict[str, Kind] = {self.root: "text"} | {node: kind for _, node, kind in sorted(made)}

    def leaves(self) -> list[str]:
        return [node for node in self.kinds if node not in self.children]

    def head(self) -> str:
        """The newest leaf: where the conversation went on last."""
        return self.leaves()[-1]

    def path(self, node: str) -> list[str]:
        if node not in self.kinds:
            raise _no_node(node)
        path = [node]
        while path[-1] != self.root:
            path.append(self.parents[path[-1]])
        return path[::-1]


def _new_node(node: str, parent: str | None, data: dict, metadata: dict | None, now: int) -> dict[str, Any]:
    return {"id": node, "parent": parent, "data": data, "created_at": now, "metadata": metadata}


def _create(context, tree_id: UUID, parent: UUID | None, data: dict, metadata: dict | None) -> NodeCreated:
    node, now = str(uuid4()), time.time_ns()
    while True:
        tree = _open(_tree(context, tree_id))
        before = str(parent or tree["root"])
        _stored(context, tree, before)
        edge = f"child/{tree['id']}/{before}/{now:020d}.{data['type']}.{node}"
        made = {
            f"node/{tree['id']}/{node}": _new_node(node, before, data, metadata, now // 10**9),
            edge: True,
        }
        # The tree must still be as it was seen: nothing is added to one that was archived meanwhile.
        if context.state.swap(made, {f"tree/{tree['id']}": tree}):
            break
        _check_time(context)
    for uri in (f"/node/{before}", "/head", ""):
        context.updated(f"arbor://tree/{tree['id']}{uri}")
    return {"type": "node_created", "tree_id": tree["id"], "node_id": node, "parent": before}


def _tree(context, tree_id: UUID | str) -> dict[str, Any]:
    found = context.state.get(f"tree/{tree_id}")
    if found is None:
        raise ToolFailed(f"there is no tree {tree_id}; tree_list says which there are, tree_create makes one")
    return found


def _stored(context, tree: dict[str, Any], node: str) -> dict[str, Any]:
    found = context.state.get(f"node/{tree['id']}/{node}")
    if found is None:
        raise _no_node(node)
    return found


def _no_node(node: str) -> ToolFailed:
    return ToolFailed(f"there is no node {node} in this tree; tree_get_skeleton says which there are")


def _children(context, tree: dict[str, Any], node: str) -> list[str]:
    return [key.rpartition(".")[2] for key in context.state.starting(f"child/{tree['id']}/{node}/")]


def _node(context, tree: dict[str, Any], node: str) -> Node:
    return {**_stored(context, tree, node), "children": _children(context, tree, node), "state": _state(tree)}


def _nodes(context, tree: dict[str, Any], shape: _Shape, wanted) -> dict[str, Node]:
    """Nodes with what they hold, by id, in the order in which they are wanted."""
    found = context.state.several(f"node/{tree['id']}/{node}" for node in wanted)
    state = _state(tree)
    return {one["id"]: {**one, "children": shape.children.get(one["id"], []), "state": state} for one in found.values()}


def _path_nodes(context, tree: dict[str, Any], node: str) -> list[Node]:
    shape = _Shape(context, tree)
    return list(_nodes(context, tree, shape, shape.path(node)).values())


def _state(tree: dict[str, Any]) -> State:
    if tree["released_at"] is None:
        return "active"
    return "archived" if time.time() >= tree["released_at"] + _WEEK else "scheduled_delete"


def _in_state(context, state: State) -> list[str]:
    trees = context.state.several(context.state.starting("tree/")).values()
    return [tree["id"] for tree in sorted(trees, key=lambda tree: tree["made"]) if _state(tree) == state]


def _open(tree: dict[str, Any]) -> dict[str, Any]:
    """A tree that may be changed."""
    state = _state(tree)
    if state == "scheduled_delete":
        raise ToolFailed(f"the tree {tree['id']} is scheduled for deletion; tree_claim makes it active again")
    if state == "archived":
        raise ToolFailed(f"the tree {tree['id']} is archived: it can be read, and not be changed any more")
    return tree


def _change(context, tree_id: UUID, change) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tree before and after a change, made on what other calls made of it meanwhile."""
    while True:
        before = _tree(context, tree_id)
        after = {**change(before), "updated_at": int(time.time())}
        if context.state.swap({f"tree/{tree_id}": after}, {f"tree/{tree_id}": before}):
            context.updated(f"arbor://tree/{tree_id}")
            return before, after
        _check_time(context)


def _check_time(context) -> None:
    if context.cancelled or not context.left():
        raise ToolFailed("too many others change this tree at the same time")


def _counted(tree: dict[str, Any], owner: str, count: int) -> dict[str, Any]:
    """A tree with so many references more (or fewer) of an owner."""
    if _state(tree) == "archived":
        _open(tree)
    held = tree["owners"].get(owner, 0)
    if held + count < 0:
        raise ToolFailed(f"{owner} cannot release {-count} references: it holds {held} to this tree")
    counts = {**tree["owners"], owner: held + count}
    owners = {name: number for name, number in counts.items() if number}
    return {**tree, "owners": owners, "released_at": None if owners else int(time.time())}


def _count(type: str, tree: dict[str, Any], owner: str) -> TreeCounted:
    total = sum(tree["owners"].values())
    return {"type": type, "tree_id": tree["id"], "owner_id": owner, "new_count": total, "state": _state(tree)}


def _shown(tree: dict[str, Any], shape: _Shape, nodes: dict[str, Any]) -> dict[str, Any]:
    """A tree as its readers see it."""
    released, state = tree["released_at"], _state(tree)
    return {
        "id": tree["id"],
        "root": tree["root"],
        "head": shape.head(),
        "nodes": nodes,
        "state": state,
        "refs": {"ref_count": sum(tree["owners"].values()), "owners": tree["owners"]},
        "scheduled_deletion_at": released,
        "archived_at": released + _WEEK if state == "archived" else None,
        "created_at": tree["created_at"],
        "updated_at": tree["updated_at"],
        "metadata": tree["metadata"],
    }


def _skeleton(context, tree: dict[str, Any]) -> Skeleton:
    shape = _Shape(context, tree)
    nodes = {
        node: {
            "id": node,
            "parent": shape.parents.get(node),
            "children": shape.children.get(node, []),
            "node_type": kind,
        }
        for node, kind in shape.kinds.items()
    }
    return _shown(tree, shape, nodes)


def _drawn(shape: _Shape, nodes: dict[str, Node]):
    """The lines of a drawing. Only a branching indents, and not without end, so that a long talk stays narrow."""
    open_ends = [(shape.root, "", "")]
    while open_ends:
        node, before, below = open_ends.pop()
        yield f"{before}{_line(nodes[node])}"
        children = shape.children.get(node, [])
        if len(children) == 1:
            open_ends.append((children[0], below, below))
            continue
        deep = len(below) >= 4 * _DEEPEST
        for place, child in enumerate(reversed(children)):
            bend, under = ("└── ", "    ") if place == 0 else ("├── ", "│   ")
            open_ends.append((child, below + bend, below if deep else below + under))


def _line(node: Node) -> str:
    data, metadata = node["data"], node["metadata"] or {}
    said = f"{metadata['role']}: " if isinstance(metadata.get("role"), str) else ""
    if data["type"] == "external":
        handle = data["handle"]
        names = [str(handle[name]) for name in ("source", "identifier") if name in handle]
        return f"{said}[{':'.join(names) or ', '.join(handle)}]"
    text = " ".join(data["content"].split())
    return f"{said}{text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…'}" or "(empty)"

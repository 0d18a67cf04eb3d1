"""The traffic of `turns/` and `replies/<id>.stream`: the message, the answer, and the answer being written."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.mailbox import NAME, REQUEST_ID
from honeybadger_agent.wire.base import Neutralised, OneLine, Request, Result
from honeybadger_agent.wire.refusals import shaped

RequestId = Annotated[str, shaped(REQUEST_ID.pattern, "the id of a message, as 01a1fcc9-9872-70bb")]
AgentId = Annotated[str, shaped(NAME.pattern, "an id: 1-64 letters, digits, _ and -, as k3v9x2m4q7p1 or researcher")]


class ToolRun(Result):
    """One tool that ran in a turn."""

    name: str
    ok: bool
    summary: str = Field(description="What it did or why it did not, on one line of at most 200 characters.")


class ChatResult(Result):
    content: str = Field(description="The agent's answer.")
    agent: str = Field(description="Id of the agent; in the history it is the sender of the answer.")
    model: str = Field(description="The model that wrote it.")
    turn: int = Field(description="Number of the answer in its session, from 1; 0 when no conversation is kept.")
    steps: int = Field(description="How often the model was asked.")
    tools: list[ToolRun] = Field(default_factory=list, description="What ran, in order.")
    input_tokens: int | None = Field(default=None, description="As the model counts them, over all steps.")
    output_tokens: int | None = Field(default=None, description="As the model counts them, over all steps.")
    delegated_tokens: int = Field(default=0, description="What the agents cost that it gave tasks to, in and out.")
    neutralised: Neutralised = Field(default_factory=dict)
    stopped_by: str | None = Field(
        default=None, description="The limit, or who, ended the turn before the model was done; null: it was done."
    )
    consolidated: int = Field(
        default=0, description="Turns of the session up to this one are told in HISTORY.md and summary.md; 0: none."
    )


class Chat(Request[ChatResult], changes=True, is_turn=True):
    """Say something to an agent of the group and get its answer (HB8)."""

    content: Annotated[str, StringConstraints(min_length=1)] = Field(description="What is said.")
    sender: OneLine | None = Field(
        default=None, description="Who speaks, as shown in the history; default: the sender's folder."
    )
    agent: AgentId | None = Field(
        default=None, description="Which agent answers, by its id in config/agents/; default: the host's own choice."
    )


class StopResult(Result):
    turn: str = Field(description="Id of the message.")
    state: Literal["stopped", "taken_back", "finished"] = Field(
        description="`stopped` while it was answered: what was said is the answer; `taken_back` before that: nothing "
        "was said; `finished`: it ended by itself meanwhile."
    )


class StopTurn(Request[StopResult], audience="programs"):
    """End the answer to a message, by its id; without one the answer that is being written in this session."""

    turn: RequestId | None = Field(
        default=None, description="Id of the message; default: the sender's turn that runs in the session."
    )
    sender: AgentId | None = Field(default=None, description="Whose turn; for the operator, others stop their own.")


class StreamLine(Result):
    """One line of `replies/<id>.stream`, JSON. The file goes when the reply stands, which has the whole answer."""

    kind: Literal["began", "text", "tool_began", "tool_ended"]
    text: str | None = Field(default=None, description="With `text`: the next part of what the model writes.")
    step: int | None = Field(default=None, description="Which asking of the model it belongs to, from 1.")
    agent: str | None = Field(default=None, description="With `began`.")
    model: str | None = Field(default=None, description="With `began`.")
    attempt: int | None = Field(
        default=None, description="With `began`: 2 or more after a restart of the host; the text begins anew."
    )
    tool: str | None = Field(default=None, description="With `tool_began` and `tool_ended`: its name.")
    ok: bool | None = Field(default=None, description="With `tool_ended`.")
    summary: str | None = Field(default=None, description="With `tool_ended`: one line.")

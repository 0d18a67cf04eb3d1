"""The traffic of `turns/` and `replies/<id>.stream`: the message, the answer, and the answer being written."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.mailbox import REQUEST_ID
from honeybadger_agent.wire.base import Neutralised, OneLine, Request, Result
from honeybadger_agent.wire.labels import EntryId
from honeybadger_agent.wire.refusals import shaped

RequestId = Annotated[str, shaped(REQUEST_ID.pattern, "the id of a message, as 01a1fcc9-9872-70bb")]
AgentId = EntryId  # an agent may have the names that a sender may have, which are those of entries, too


class ToolRun(Result):
    """One tool that ran in a turn."""

    name: str
    ok: bool
    summary: str = Field(description="What it did or why it failed: one line of at most 200 characters.")


class ChatResult(Result):
    content: str = Field(description="The agent's answer.")
    agent: str = Field(description="Id of the agent; the history shows it as the sender of the answer.")
    model: str = Field(description="The model that wrote it.")
    turn: int = Field(description="Number of the answer in its session, from 1; 0: conversations are not kept.")
    steps: int = Field(description="Number of calls of the model.")
    tools: list[ToolRun] = Field(default_factory=list, description="Tools that ran, in order.")
    input_tokens: int | None = Field(default=None, description="As counted by the model, over all steps.")
    output_tokens: int | None = Field(default=None, description="As counted by the model, over all steps.")
    delegated_tokens: int = Field(default=0, description="Tokens of agents to which it delegated, in and out.")
    neutralised: Neutralised = Field(default_factory=dict)
    stopped_by: str | None = Field(
        default=None, description="The limit or person that ended the turn early; null: the model finished."
    )


class Chat(Request[ChatResult], changes=True, is_turn=True):
    """Say something to an agent of the group and get its answer (HB8)."""

    content: Annotated[str, StringConstraints(min_length=1)] = Field(description="The message.")
    sender: OneLine | None = Field(
        default=None, description="Who speaks, as shown in the history; default: the sender's folder."
    )
    agent: AgentId | None = Field(
        default=None, description="Agent that answers, by its id in config/agents/; default: the host's choice."
    )


class StopResult(Result):
    turn: str = Field(description="Id of the message.")
    state: Literal["stopped", "taken_back", "finished"] = Field(
        description="`stopped`: the answer was cut off; `taken_back`: it had not begun; `finished`: it was "
        "complete already."
    )


class StopTurn(Request[StopResult], changes=True, audience="programs"):
    """End the answer to a message, by its id; without one the answer that is being written in this session."""

    turn: RequestId | None = Field(
        default=None, description="Id of the message; default: the sender's running turn in the session."
    )
    sender: AgentId | None = Field(default=None, description="Sender whose turn to stop; only for the operator.")


class StreamLine(Result):
    """One line of `replies/<id>.stream`, JSON. The file goes when the reply stands, which has the whole answer."""

    kind: Literal["began", "text", "tool_began", "tool_ended"]
    text: str | None = Field(default=None, description="With `text`: the next part of the answer.")
    step: int | None = Field(default=None, description="Number of the model's call, from 1.")
    agent: str | None = Field(default=None, description="With `began`.")
    model: str | None = Field(default=None, description="With `began`.")
    attempt: int | None = Field(
        default=None, description="With `began`: 2 or more after a restart of the host; the text starts over."
    )
    tool: str | None = Field(default=None, description="With `tool_began` and `tool_ended`: its name.")
    ok: bool | None = Field(default=None, description="With `tool_ended`.")
    summary: str | None = Field(default=None, description="With `tool_ended`: one line.")

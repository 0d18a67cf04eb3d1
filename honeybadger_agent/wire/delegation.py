"""Requests of a router to its specialists: another agent of the home answers, in a separate session."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NOTE_CHARACTERS, Request, Result
from honeybadger_agent.wire.turns import AgentId

DEFAULT_DELEGATION_SECONDS = 300


class DelegationResult(Result):
    state: Literal["done", "timed_out", "failed", "stopped"] = Field(description="Whether the agent finished.")
    content: str = Field(description="Its answer, or what it had said when it was stopped.")
    stopped_by: str | None = Field(
        default=None, description="The failure, limit or person that stopped it; null: it finished."
    )
    agent: str
    session: str = Field(description="Session in which it was asked; nobody else uses it.")
    tokens: int = Field(description="Tokens it used, in and out; they count against the limit of the asking turn.")


class DelegateToAgent(Request[DelegationResult], changes=True, audience="routers"):
    """Give a task to another agent and get its answer. It has the group's memory, but has not heard this conversation:
    say all it needs to know. `list_available_agents` says who there is.
    """

    agent: AgentId = Field(description="Its id.")
    task: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] = Field(
        description="What it should do, and what you want back."
    )
    context: Annotated[str, StringConstraints(max_length=MAX_NOTE_CHARACTERS)] | None = Field(
        default=None, description="What it needs to know to do it."
    )
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] | None = Field(
        default=None, description="Maximum time (default 300); less when your own time ends earlier."
    )

    @property
    def may_take(self) -> float:
        return self.timeout_seconds or DEFAULT_DELEGATION_SECONDS


class AvailableAgent(Result):
    agent: str = Field(description="Its id.")
    name: str
    description: str


class AgentsResult(Result):
    agents: list[AvailableAgent]


class ListAvailableAgents(Request[AgentsResult], audience="routers"):
    """List the agents that you can give tasks to."""

"""Every row of what was asked for has a test, by name; a test that goes away takes its row with it, loudly."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final, get_args

import pytest

from honeybadger_agent.wire import REQUEST_TYPES, ErrorCode

TESTS: Final = Path(__file__).parents[1]

# What was asked -> the tests that hold it.
ROWS: Final[dict[str, list[str]]] = {
    "HB1 tool update_memory, its description, its payload": [
        "agent/test_tools.py::test_update_memory_tool_writes_ipc_file_with_correct_payload",
        "agent/test_tools.py::test_the_description_tells_the_model_when_to_remember",
    ],
    "HB1 the tool answers after the durable receipt": [
        "flows/test_request_path.py::test_an_accepted_note_has_a_journal_position",
        "crash/test_kill_points.py::test_killed_thrice_at_a_point_nothing_is_lost",
        "crash/test_power_cut.py::test_a_power_cut_at_any_call_keeps_acknowledged_changes",
    ],
    "HB2 the note, byte for byte, with its author": [
        "host/text/test_neutralise.py::test_a_note_of_one_line_is_the_seeds",
        "flows/test_request_path.py::test_handle_update_memory_creates_and_appends_memory_md_with_attribution",
    ],
    "HB2 content can never forge a heading": [
        "host/text/test_neutralise.py::test_no_note_forges_another_or_takes_one_in",
        "flows/test_hostile.py::test_no_text_forges_a_note_or_its_author",
        "flows/test_hostile.py::test_no_section_forges_a_note_or_its_author",
    ],
    "HB2 blank content is refused with a warning, as an error reply": [
        "flows/test_errors.py::test_each_documented_refusal_says_why_and_changes_nothing",
    ],
    "HB3 persona, facts and summary load each on its own": [
        "host/memory/test_group_files.py::test_hierarchical_memory_store_loads_group_agent_memory_and_summary",
        "host/handlers/test_handlers.py::test_read_group_files_gives_each_file_as_it_is",
        "host/context/test_text.py::test_each_part_is_there_without_the_others",
    ],
    "HB4 the cache is never stale and never torn": [
        "host/memory/test_group_files.py::test_each_save_shows_without_a_watcher",
        "host/memory/test_group_files.py::test_no_read_under_load_is_stale_or_torn",
        "host/memory/test_group_files.py::test_no_read_is_stale_for_any_way_of_saving",
    ],
    "HB5 order of the context; a blank part leaves no heading": [
        "host/context/test_text.py::test_everything_stands_in_the_seeds_order",
        "host/context/test_text.py::test_a_blank_part_keeps_only_its_row",
        "flows/test_request_path.py::test_context_holds_persona_notes_history_and_the_message",
    ],
    "HB5 a note that several wrote stands once, those of a section and author under one heading": [
        "host/memory/test_notes_together.py::test_a_note_of_three_authors_is_shown_once",
        "host/memory/test_notes_together.py::test_500_notes_cost_a_third_less_than_their_file",
        "host/handlers/test_search_handlers.py::test_equal_notes_are_one_hit_and_each_opens",
    ],
    "HB5 one budget for the whole, explained": [
        "host/context/test_text.py::test_only_uncut_parts_exceed_the_budget",
        "host/context/test_text.py::test_every_row_tells_what_is_in_the_text",
        "host/context/test_text.py::test_the_persona_is_never_cut",
    ],
    "HB6 history under a token budget": [
        "host/memory/test_budget.py::test_conversation_formatter_with_budget_truncates_messages_over_budget",
        "host/memory/test_budget.py::test_conversation_formatter_with_budget_prioritises_most_recent_messages",
        "host/memory/test_budget.py::test_conversation_formatter_zero_budget_includes_all_messages",
        "host/memory/test_budget.py::test_for_ascii_the_result_is_the_seeds",
    ],
    "HB6 the newest message is shortened, never dropped": [
        "host/memory/test_budget.py::test_a_newest_turn_over_budget_is_shortened",
    ],
    "HB6 nobody forges another speaker's line": [
        "host/text/test_neutralise.py::test_no_turn_forges_another_speakers_line",
        "flows/test_errors.py::test_each_documented_refusal_says_why_and_changes_nothing",
    ],
    "HB6 estimate of tokens": [
        "host/text/test_neutralise.py::test_a_token_is_four_ascii_characters_or_one_other",
    ],
    "HB7 one formatter for every history, that of a task, too": [
        "flows/test_tasks.py::test_a_run_gets_the_newest_ten_turns",
        "host/memory/test_budget.py::test_a_history_is_the_newest_turns_within_budget",
    ],
    "HB8 remember, MEMORY.md has it, a later session answers from it": [
        "flows/test_seeds_story.py::test_a_new_session_knows_what_memory_md_holds",
    ],
    "HB9 fifty long messages, one more: cut to about 8000 tokens in the debug log": [
        "flows/test_seeds_story.py::test_after_fifty_long_messages_history_stays_near_8000_tokens",
    ],
    "HB10 agents with identity, model and tools; turns queued per group": [
        "flows/test_agents.py::test_an_agents_identity_comes_second_in_its_context",
        "flows/test_agents.py::test_only_the_tools_listed_are_offered_and_taken",
        "flows/test_agents.py::test_an_agent_may_have_a_model_of_its_own",
        "flows/test_turns.py::test_turns_of_a_group_run_in_name_order",
        "flows/test_tasks.py::test_a_task_runs_on_time_in_the_groups_conversation",
        "crash/test_features.py::test_killed_at_any_call_each_is_done_once",
    ],
    "HB10 a router delegates to specialists; the result is there once; circles, failures and stops are answered": [
        "flows/test_delegation.py::test_a_router_asks_two_specialists_and_gives_one_answer",
        "flows/test_delegation.py::test_only_routers_are_offered_delegation",
        "flows/test_delegation.py::test_circles_long_chains_and_unknown_agents_are_refused",
        "flows/test_delegation.py::test_a_failing_or_hanging_specialist_is_an_answer",
        "flows/test_delegation.py::test_a_turn_reserves_time_to_answer",
        "flows/test_delegation.py::test_a_stop_of_the_router_reaches_its_specialists",
        "crash/test_features.py::test_killed_at_any_call_each_is_done_once",
    ],
    "HB10 messages to people: in order, once, read at one's own place": [
        "flows/test_messages.py::test_each_reader_of_messages_keeps_its_own_place",
        "crash/test_acting.py::test_killed_at_random_runs_delegations_and_messages_happen_once",
        "flows/test_messages.py::test_a_waiting_reader_is_answered_by_message_or_timeout",
        "flows/test_push.py::test_a_webhook_gets_signed_messages_in_order",
        "host/work/test_messages.py::test_messages_read_from_anywhere_equal_a_full_reading",
    ],
    "AM4 an absolute path as it is, else under the profile, else under home": [
        "flows/test_agents.py::test_a_soul_elsewhere_is_read_and_followed",
        "flows/test_groups_elsewhere.py::test_a_group_elsewhere_is_served_followed_and_backed_up",
        "flows/test_groups_elsewhere.py::test_init_links_groups_by_absolute_or_relative_path",
    ],
    "AM5 soul.md, directives.md, style.md form the identity": [
        "flows/test_agents.py::test_an_agents_identity_comes_second_in_its_context",
    ],
    "AM1 at most 50 turns, idle sessions leave memory, snapshots, unknown is empty": [
        "host/memory/test_turn_log.py::test_the_window_moves_and_the_log_is_kept_whole",
        "host/memory/test_turn_log.py::test_a_session_leaves_memory_with_its_batch_and_loses_nothing",
        "host/memory/test_turn_log.py::test_a_snapshot_does_not_change_when_more_is_said",
        "host/memory/test_turn_log.py::test_an_unknown_session_is_empty",
    ],
    "AB1 beyond the window older messages are consolidated, and the newest stay": [
        "flows/test_consolidation.py::test_ten_messages_at_a_window_of_ten_ask_nothing",
    ],
    "AB1 a window of 0 is a plain trim to 10, without model or file": [
        "flows/test_consolidation.py::test_a_window_of_zero_shows_ten_turns",
    ],
    "AB2 the model's contract, in numbers or as the seed's texts; a wrong answer changes nothing and loses nothing": [
        "host/curation/test_consolidation.py::test_a_model_reads_numbered_notes_sections_and_turns",
        "flows/test_consolidation.py::test_answered_texts_count_only_where_people_said_them",
        "flows/test_consolidation.py::test_wanted_prose_is_written_and_marked_as_the_models",
        "flows/test_consolidation.py::test_a_failing_model_over_http_costs_only_its_tokens",
    ],
    "AB3 HISTORY.md grows; notes change one by one": [
        "flows/test_consolidation.py::test_chosen_sentences_are_copied_with_speaker_and_time",
        "flows/test_consolidation.py::test_a_note_that_comes_while_the_model_thinks_stays",
        "flows/test_consolidation.py::test_a_correction_stands_beside_the_old_until_retired",
    ],
    "AB4 the conversation goes on meanwhile": [
        "flows/test_consolidation.py::test_a_note_that_comes_while_the_model_thinks_stays",
    ],
    "AB8 a model of its own": [
        "flows/test_consolidation.py::test_chosen_sentences_are_copied_with_speaker_and_time",
    ],
    "AB5 the log of a session is append-only and kept whole": [
        "host/memory/test_turn_log.py::test_the_window_moves_and_the_log_is_kept_whole",
        "host/memory/test_turn_log.py::test_ten_thousand_turns_cost_no_more_than_fifty",
        "host/memory/test_turn_log.py::test_a_line_that_is_no_turn_hides_no_other",
    ],
    "AB6 folders 0700, files 0600": [
        "host/files/test_safe_files.py::test_new_files_and_folders_are_private",
        "host/files/test_safe_files.py::test_a_replaced_file_is_private",
        "host/journal/test_journal.py::test_only_its_owner_reads_it_whatever_the_umask",
        "host/documents/test_honest_editor.py::test_files_and_folders_are_private",
    ],
    "RB1 one JSON file for each entry, with its members": [
        "host/handlers/test_entry_handlers.py::test_an_entry_is_one_file_with_all_members",
        "host/memory/test_entry.py::test_a_written_entry_is_read_back_equal",
    ],
    "RB1 what is known is reinforced and not doubled": [
        "host/handlers/test_entry_handlers.py::test_saving_a_known_text_reinforces_its_entry",
        "host/memory/test_stores.py::test_a_decision_sees_earlier_ones_of_its_batch",
        "flows/test_entries.py::test_an_entry_is_known_after_kill_restart_and_edit",
    ],
    "RB4 categories are a tree, and general without": [
        "host/handlers/test_entry_handlers.py::test_categories_are_a_tree_with_counts",
    ],
    "RB5 save, delete and list, each a tool": [
        "agent/test_mcp.py::test_every_tool_is_offered_or_withheld_with_its_result",
        "flows/test_change_many.py::test_each_operation_meets_what_those_before_it_have_changed",
        "flows/test_entries.py::test_an_entry_is_known_after_kill_restart_and_edit",
        "flows/test_entries.py::test_the_operator_undoes_with_and_without_a_running_host",
        "crash/test_kill_points.py::test_killed_thrice_at_a_point_nothing_is_lost",
    ],
    "RB2 every message recalls up to eight entries that are not in view, as the seed writes them": [
        "flows/test_recall.py::test_relevant_memories_appear_and_stay_with_their_turn",
        "host/context/test_text.py::test_the_lines_are_those_of_the_seed",
        "host/handlers/test_search_handlers.py::test_eight_entries_are_recalled_and_others_are_near_misses",
    ],
    "RB2 turns, notes and history are recalled beside entries, in a budget of their own": [
        "host/handlers/test_recalled_talk.py::test_a_recalled_turn_has_day_and_speaker",
        "host/handlers/test_recalled_talk.py::test_an_entry_comes_before_what_was_said",
        "flows/test_recall.py::test_what_was_said_elsewhere_is_recalled_after_a_kill",
    ],
    "RB2 on the first turn without a hit the newest five": [
        "flows/test_recall.py::test_a_session_without_matches_begins_with_the_newest",
    ],
    "RB3 what is searched of an entry, and words of every kind": [
        "host/handlers/test_search_handlers.py::test_an_entry_is_found_by_content_tags_and_category",
        "host/search/test_sources.py::test_an_entry_is_found_by_its_names_too",
    ],
    "RB5 search_memory with category and tags": [
        "host/handlers/test_search_handlers.py::test_tags_and_categories_are_the_same_whatever_their_case",
        "host/search/test_ranking.py::test_filters_apply_before_the_ranking",
    ],
    "RB11 recall, fallback, delta, injection": [
        "flows/test_recall.py::test_after_a_kill_everything_is_found_without_the_index",
        "host/memory/test_injection_ledger.py::test_an_entry_is_in_view_like_its_turn",
        "flows/test_recall.py::test_relevant_memories_appear_and_stay_with_their_turn",
        "host/context/test_text.py::test_everything_stands_in_the_seeds_order",
    ],
    "RB12 recall can be switched off": [
        "flows/test_recall.py::test_recall_can_be_switched_off",
    ],
    "AM2 words, all tags, a category and what is below it, a range of dates": [
        "host/handlers/test_search_handlers.py::test_tags_and_categories_are_the_same_whatever_their_case",
        "host/search/test_ranking.py::test_filters_apply_before_the_ranking",
        "host/handlers/test_search_handlers.py::test_a_date_as_an_end_includes_its_day",
    ],
    "AM3 the rules of categories": [
        "host/memory/test_entry.py::test_letters_digits_dashes_and_slashes_are_a_category",
        "host/memory/test_entry.py::test_no_category_leads_out_of_its_groups_folder",
    ],
    "AM6 a malformed file is skipped with a warning; what is missing is no failure": [
        "host/handlers/test_entry_handlers.py::test_a_malformed_entry_is_reported_and_hides_nothing",
    ],
    "RB6 working memory expires, by default after five minutes": [
        "host/handlers/test_working_handlers.py::test_what_is_saved_is_there_for_five_minutes",
        "host/memory/test_working_memory.py::test_an_entry_expires_at_its_time_and_not_before",
        "host/memory/test_working_memory.py::test_a_clock_set_back_at_most_doubles_a_life",
        "host/memory/test_working_memory_store.py::test_expired_items_go_from_disk_and_journal",
    ],
    "RB6 fifty for a session; a full one is an error reply": [
        "host/handlers/test_working_handlers.py::test_the_fifty_first_entry_is_refused_with_advice",
    ],
    "RB6 session a never sees ab": [
        "host/memory/test_working_memory.py::test_no_two_names_share_a_file",
        "host/memory/test_working_memory.py::test_no_two_sessions_share_a_file",
        "host/handlers/test_working_handlers.py::test_no_session_or_group_sees_anothers_items",
    ],
    "RB6 it survives a restart with its expiry": [
        "flows/test_sessions.py::test_an_item_and_its_expiry_survive_a_restart",
    ],
    "RB6 four tools; the list has no data": [
        "agent/test_mcp.py::test_every_tool_is_offered_or_withheld_with_its_result",
        "host/handlers/test_working_handlers.py::test_the_list_is_by_key_and_has_no_data",
        "host/handlers/test_working_handlers.py::test_search_returns_the_best_match_with_an_excerpt",
    ],
    "RB6 the inventory, line for line": [
        "host/memory/test_working_memory.py::test_the_inventory_is_the_seeds_line_for_line",
        "host/memory/test_working_memory.py::test_any_name_is_one_line_of_the_inventory",
    ],
    "RB11 the inventory of every turn, between summary and conversation": [
        "host/context/test_text.py::test_the_inventory_has_the_seeds_place",
        "host/handlers/test_working_handlers.py::test_the_context_shows_the_inventory_and_explains_it",
    ],
    "RB7 the newest 20 turns are replayed, a setting apart from the window": [
        "host/handlers/test_handlers.py::test_a_context_replays_unconsolidated_turns_and_the_newest_twenty",
    ],
    "RB12 the conversation can be switched off": [
        "host/handlers/test_handlers.py::test_without_conversations_turns_are_neither_kept_nor_replayed",
        "flows/test_turns.py::test_without_a_conversation_each_message_is_answered_by_itself",
    ],
    "RB12 files override the built-in prompts": [
        "host/curation/test_asking.py::test_files_replace_a_prompt_and_its_rules_at_once",
        "host/curation/test_asking.py::test_a_broken_file_is_reported_and_the_default_used",
        "host/curation/test_asking.py::test_doctor_names_what_is_wrong_with_a_directive",
    ],
    "RB13 feedback on an answer or a tool is kept with its turn, and its newest is read": [
        "host/handlers/test_handlers.py::test_feedback_is_one_line_with_turn_and_author",
        "host/handlers/test_handlers.py::test_the_newest_since_a_time_are_read_oldest_first",
        "flows/test_feedback.py::test_feedback_survives_kills_once_and_can_be_deleted",
        "flows/test_chat.py::test_commands_look_into_the_memory",
    ],
    "RB8 what is saved stands at once; in the background a model chooses sentences that become entries": [
        "flows/test_enrichment.py::test_facts_of_a_saved_text_become_entries",
        "flows/test_enrichment.py::test_an_answer_without_entries_is_not_asked_again",
    ],
    "RB9 a pass merges what says the same, with the earliest created; its sources leave recall, no more and no less": [
        "flows/test_dream.py::test_without_a_model_equal_entries_become_one",
        "flows/test_dream.py::test_a_models_joins_and_refinements_are_taken_back",
        "flows/test_dream.py::test_retirements_and_unlike_joins_wait",
        "flows/test_dream.py::test_a_dream_is_taken_back_byte_for_byte",
    ],
    "RB10 preferences are inferred by thresholds; what touches security or money needs permission": [
        "flows/test_dream.py::test_preferences_need_enough_quoted_turns_of_a_person",
        "host/curation/test_preferences.py::test_so_many_turns_of_one_person_must_be_quoted",
        "host/curation/test_preferences.py::test_what_touches_security_credentials_or_money_needs_permission",
    ],
    "RB14 inferring preferences can be switched off": [
        "flows/test_dream.py::test_preferences_need_a_model_and_can_be_switched_off",
    ],
    "RB13 a pass hears feedback, and corrections become anti-patterns": [
        "flows/test_dream.py::test_a_correction_becomes_an_anti_pattern_verbatim_once",
    ],
    "RB14 a pass looks at 1,000 entries at most": [
        "host/curation/test_snapshot.py::test_a_pass_reads_a_thousand_entries_and_says_so",
    ],
    "AM7 entries are compacted: what several say becomes one": [
        "flows/test_dream.py::test_a_models_joins_and_refinements_are_taken_back",
        "host/curation/test_gates.py::test_a_pass_removes_a_tenth_a_month_a_fifth",
    ],
    "AM7 a group is exported and imported, with its log": [
        "flows/test_export.py::test_import_and_export_again_gives_the_same_bytes",
        "flows/test_export.py::test_log_blame_context_and_search_survive_an_import",
    ],
    "AM7 what other programs remember is imported": [
        "flows/test_import.py::test_a_folder_of_markdown_becomes_entries_with_origin",
        "flows/test_import.py::test_claude_codes_transcripts_become_turns_and_its_memory_entries",
        "flows/test_import.py::test_a_chatgpt_export_follows_the_shown_branch",
        "flows/test_import.py::test_an_export_of_claude_has_conversations_projects_and_memory",
        "flows/test_import.py::test_other_memories_become_entries",
    ],
    "RB12 working memory can be switched off": [
        "host/handlers/test_working_handlers.py::test_a_host_without_working_memory_says_so",
    ],
    "CM1 the file and its members, readable": [
        "host/memory/test_session_document.py::test_the_seeds_document_is_read_and_written_exactly",
        "host/memory/test_session_document.py::test_an_empty_document_has_every_member",
        "host/memory/test_session_document.py::test_what_a_person_added_is_kept_wherever_it_stands",
        "flows/test_sessions.py::test_a_session_document_is_a_file_and_survives_restarts",
    ],
    "CM2 load, save, delete, list": [
        "host/handlers/test_session_handlers.py::test_a_session_nobody_used_is_a_new_empty_document",
        "host/handlers/test_session_handlers.py::test_an_update_changes_what_it_names_and_nothing_else",
        "host/handlers/test_session_handlers.py::test_a_deleted_document_does_not_come_back",
        "host/handlers/test_session_handlers.py::test_sessions_are_listed_newest_first",
        "flows/test_damaged_sessions.py::test_a_wrong_member_waits_for_whoever_mends_it",
    ],
    "CM3 compaction: both triggers, repeated until under the limits": [
        "host/memory/test_compaction.py::test_fifty_messages_stay_and_one_more_leaves_thirty",
        "host/memory/test_compaction.py::test_over_a_hundred_thousand_tokens_the_older_half_goes",
        "host/memory/test_compaction.py::test_any_document_is_within_its_limits_afterwards_and_stays",
        "flows/test_sessions.py::test_killed_around_a_compaction_each_turn_is_there_once",
    ],
    "CM3 a bounded summary, any Unicode, tokens estimated when missing": [
        "host/memory/test_compaction.py::test_ten_thousand_messages_leave_a_bounded_summary",
        "host/memory/test_compaction.py::test_nothing_is_lost_between_history_and_summary",
        "host/memory/test_compaction.py::test_what_nobody_counted_is_estimated",
    ],
    "CM3 facts sorted once each; tasks: running stay, ended ones for a day": [
        "host/memory/test_compaction.py::test_facts_are_sorted_each_once",
        "host/memory/test_compaction.py::test_running_tasks_stay_and_ended_ones_for_a_day",
    ],
    "CM4 totals of tokens and of tool calls": [
        "host/memory/test_session_document.py::test_turns_become_history_and_are_counted",
        "host/handlers/test_session_handlers.py::test_a_long_conversation_is_the_same_in_any_batches",
    ],
    "CM5 a corrupt file is named, the last good version used": [
        "host/documents/test_json_saves.py::test_a_broken_json_file_serves_its_last_version",
        "flows/test_damaged_sessions.py::test_a_wrong_member_waits_for_whoever_mends_it",
    ],
    "CM6 load and save about 1 ms, compaction under 10 ms": [
        "flows/test_sessions.py::test_the_bench_measures_load_save_and_compaction",
    ],
    "CM7 facts, summary and tasks of a session are in the context and are searched": [
        "flows/test_sessions.py::test_the_document_is_searched_and_part_of_the_context",
    ],
    "CM4 token counts of messages, as estimated and as a model reported them": [
        "host/handlers/test_handlers.py::test_append_turn_numbers_and_keeps_what_was_said",
    ],
}

# Error code of the protocol -> the tests that get it.
CODES: Final[dict[str, list[str]]] = {
    "invalid": [
        "flows/test_errors.py::test_a_wrong_request_is_told_what_where_what_now",
        "flows/test_errors.py::test_each_documented_refusal_says_why_and_changes_nothing",
    ],
    "forbidden": ["flows/test_errors.py::test_group_global_is_reserved"],
    "not_found": ["flows/test_errors.py::test_each_documented_refusal_says_why_and_changes_nothing"],
    "conflict": ["flows/test_request_path.py::test_a_reused_id_with_other_bytes_is_a_conflict"],
    "too_large": ["flows/test_hostile.py::test_bytes_that_are_no_request_are_refused_and_kept"],
    "rate_limited": [
        "flows/test_limits.py::test_a_sender_over_its_rate_is_served_later",
        "flows/test_limits.py::test_nobody_else_waits_for_a_sender_over_its_rate",
        "flows/test_limits.py::test_an_overfull_box_serves_its_first_requests",
    ],
    "unavailable": [
        "flows/test_full_disk.py::test_a_full_journal_is_unavailable_and_later_works_once",
        "flows/test_errors.py::test_a_memory_md_that_is_no_file_is_unavailable",
        "host/journal/test_journal.py::test_a_call_on_a_full_disk_may_be_repeated",
    ],
    "internal": ["flows/test_errors.py::test_a_bug_in_a_change_keeps_the_request"],
}
# The automated tests 1 to 6 that the seed asks for.
SEEDS_TEST_PLAN: Final = [
    "agent/test_tools.py::test_update_memory_tool_writes_ipc_file_with_correct_payload",
    "flows/test_request_path.py::test_handle_update_memory_creates_and_appends_memory_md_with_attribution",
    "host/memory/test_group_files.py::test_hierarchical_memory_store_loads_group_agent_memory_and_summary",
    "host/memory/test_budget.py::test_conversation_formatter_with_budget_truncates_messages_over_budget",
    "host/memory/test_budget.py::test_conversation_formatter_with_budget_prioritises_most_recent_messages",
    "host/memory/test_budget.py::test_conversation_formatter_zero_budget_includes_all_messages",
]


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file, read and not run."""
    path = TESTS / file
    text = path.read_text() if path.is_file() else ""
    return frozenset(re.findall(r"^(?: {4})?(?:async )?def (test_\w+)\(", text, re.MULTILINE))


def absent(names: list[str]) -> list[str]:
    return [name for name in names if name.split("::")[1] not in names_in(name.split("::")[0])]


def test_a_test_that_is_not_there_is_noticed() -> None:
    here = "house/test_requirements.py"
    names = [f"{here}::test_a_test_that_is_not_there_is_noticed", f"{here}::test_gone", "house/test_gone.py::test_gone"]
    assert absent(names) == names[1:]


@pytest.mark.parametrize("row", ROWS)
def test_every_requirement_has_its_tests(row: str) -> None:
    assert ROWS[row]
    assert absent(ROWS[row]) == []


def test_no_row_of_this_issue_is_left_out() -> None:
    rows = {"HB": range(1, 11), "AM": range(1, 8), "AB": (1, 2, 3, 4, 5, 6, 8), "RB": range(1, 15), "CM": range(1, 8)}
    asked = {f"{seed}{number}" for seed, numbers in rows.items() for number in numbers}
    assert {row.split()[0] for row in ROWS} == asked


@pytest.mark.parametrize("code", CODES)
def test_every_error_code_has_its_tests(code: str) -> None:
    assert CODES[code]
    assert absent(CODES[code]) == []


def test_every_code_of_the_protocol_is_given() -> None:
    assert sorted(CODES) == sorted(get_args(ErrorCode))


def test_the_seeds_test_plan_is_there_by_name() -> None:
    assert absent(SEEDS_TEST_PLAN) == []


def test_every_request_type_is_in_a_test_of_the_host() -> None:
    files = [*(TESTS / "host" / "handlers").glob("test_*.py"), *(TESTS / "flows").glob("*.py")]
    source = "".join(path.read_text() for path in files)
    assert [name for name in REQUEST_TYPES if not re.search(rf'"{name}"|\.{name}\(', source)] == []

"""Tests that walk the same way as others, only longer: run by `make test-slow`, since `make test` has 15 minutes.

What stays in `make test` beside each is in brackets. A test that is alone in what it checks does not belong here.
"""

from __future__ import annotations

import re

import pytest

LONG = re.compile(
    "|".join(
        (
            # rarer architectures [the commonest; `make architectures` makes the whole table]
            r"checkpoints/test_architectures\.py::test_loading.*\[(?!(bert|roberta|xlm-roberta|mpnet|distilbert|deberta-v2|mobilebert"
            r"|modernbert|t5|gpt2|qwen2|qwen3|llama|albert|electra)\])",
            # two processes and gradients in one step [settings2 of the same, refine_runs]
            r"training/test_processes\.py::test_two_equal_one\[settings1\]",
            r"training/test_refine_runs\.py::test_two_processes_share",
            r"training/test_debcse_runs\.py::test_batch_norm_is_over_the_whole_batch",
            # each way of taking a step with each setting [the first settings of each]
            r"training/test_steps\.py::test_in_pieces_as_at_once\[\{'(accumulation|two_encoders|data)'",
            r"training/test_steps\.py::test_bfloat16_steps.*\[\{'(accumulation|two_encoders|data|kind)'",
            r"training/test_steps\.py::test_packed_steps.*\[\{'(accumulation|two_encoders|kind)'",
            r"training/test_steps\.py::test_fused_projections.*\[\{'(mlm_weight|kind)'",
            # commands in processes of their own, which other tests run within theirs
            r"cli/test_process\.py::TestHelp::test_each_command",
            r"export/test_export_command\.py::test_onnx_with_int8",
            r"encoder/test_files\.py::TestWorkers::test_its_error",
            r"examples/test_examples\.py::test_(train_on_your_text|search_own_text)",
            r"report/test_report_words\.py::TestDoingItAgain",
            r"cli/test_process\.py::TestEndings::test_(interrupted_with_workers|json_for_another_program)",
            r"cli/test_visible_text\.py::TestCommands::test_rank_on_a_terminal",
            r"integrations/test_listwise_training\.py::test_the_example_runs",
            r"docs/test_site_browser\.py::test_every_page_fits_the_window\[desktop",
            # pages at every width and in every light [desktop, light]
            r"page/test_serve_page\.py::test_looked_at\[(phone-light|desktop-dark)",
            r"report/test_report_page\.py::test_looked_at\[(one-desktop-dark|one-phone|several-phone-light|several-desktop-dark)",
            # graphs of other models [bert]
            r"export/test_export_graph\.py::test_vectors_are_the_encoders\[(roberta|mobilebert)",
            r"encoder/test_modules\.py::TestTruncation::test_an_onnx_graph",
            r"export/test_onnx_by_name\.py::test_its_scores.*\[(roberta|mobilebert)",
            # the service under load, and at its end [the parts of it: connections, shares, batching]
            r"benchmarks/test_load_bench\.py",
            r"serve/test_serve_live\.py::test_told_to_end_it_answers_what_it_began\[15\]",
            r"serve/test_serve_fuzz\.py::test_answers_as_described\[POST-/(v2/|similarity|rerank).*-negative\]",
            # kills and two writers of a token store [every power cut of it: storage/test_every_writer.py]
            r"text/test_token_store\.py::test_a_kill_half_way",
            r"construct/engines/test_transformers_engine\.py::test_lists_that_grow",
            r"benchmarks/test_bench_commands\.py::TestTrain::test_pairs_of_unequal_sides",
        )
    )
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if LONG.search(item.nodeid):
            item.add_marker(pytest.mark.slow)

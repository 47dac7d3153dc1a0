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
            # every pooling and every tail with every kind of backbone [each with bert; mean with every kind]
            r"encoder/test_folder\.py::test_any_model_of_sentence_transformers_loads\[(normalize|dense).*-(?!mean-)\w+-(?!bert)",
            r"encoder/test_folder\.py::test_sentence_transformers_gives.*\[(last_two|max|mean_|weighted|last_token|cls\+|mean\+).*-(?!bert)",
            # a second real model [all-MiniLM-L6-v2]
            r"encoder/test_folder\.py::test_real_models_make_the_round_trip\[all-mpnet",
            # two processes and gradients in one step [method_contract, a method that uses all of the contract]
            r"training/test_processes\.py::test_two_equal_one\[settings[12]\]",
            r"training/test_contrastive_methods\.py::.*test_a_queue_in_two_processes",
            r"training/test_kills\.py::test_two_processes_killed",
            r"training/test_refine_runs\.py::test_two_processes_share",
            r"training/test_debcse_runs\.py::test_batch_norm_is_over_the_whole_batch",
            # every recipe's steps on other backbones [those of BERT]
            r"training/test_recorded_losses\.py::test_losses_are_those_recorded\[.*-(mobilebert|roberta-base|roberta-large|bert-large)\]",
            # each way of taking a step with each setting [the first settings of each]
            r"training/test_method_contract\.py::.*::test_in_pieces_as_at_once\[(8|100)\]",
            r"training/test_method_contract\.py::.*::test_packed_as_padded\[roberta\]",
            r"training/test_steps\.py::test_in_pieces_as_at_once\[\{'(pooling|mlm_weight)'",
            r"training/test_steps\.py::test_fused_projections.*\[\{'pooling'",
            r"training/test_(ways_of|contrastive|prompt)_methods\.py::.*test_pieces.*(pcl|declutr|isbert|sncse|consert)",
            r"training/test_prompt_methods\.py::.*test_other_backbones",
            r"training/test_steps\.py::test_in_pieces_as_at_once\[\{'(accumulation|two_encoders|data)'",
            r"training/test_steps\.py::test_bfloat16_steps.*\[\{'(accumulation|two_encoders|data|kind)'",
            r"training/test_steps\.py::test_packed_steps.*\[\{'(accumulation|two_encoders|kind)'",
            r"training/test_steps\.py::test_fused_projections.*\[\{'(mlm_weight|kind)'",
            # commands in processes of their own, which other tests run within theirs
            r"cli/test_process\.py::TestHelp::test_each_command",
            r"export/test_export_command\.py::test_onnx_with_int8",
            r"encoder/test_files\.py::TestWorkers::test_(its_error|cut_texts_are_counted|a_defect_in_it|one_that_dies)",
            r"docs/test_how_do_i\.py::test_a_command\[nearer (compare|train rankcse|train --resume)",
            r"serve/test_serve_live\.py::test_told_to_end_it_refuses_what_takes_longer",
            r"analysis/test_analyse_command\.py::test_files_for_several_models_with_a_corpus",
            r"cli/test_construct_debiased_command\.py::test_it_is_read_as_debiased_samples",
            r"cli/test_train_commands\.py::test_a_run_with_seeds_prints",
            r"cli/test_sweep_command\.py::test_a_table_with_mean",
            r"report/test_report_command\.py::test_(all_drawings_as_files|models_without_a_run)",
            r"test_not_covered\.py::test_a_run\[2\]",
            r"cli/test_league_command\.py::test_a_league_and_its_page",
            r"examples/test_examples\.py::test_(train_on_your_text|search_own_text)",
            r"report/test_report_words\.py::TestDoingItAgain",
            r"cli/test_process\.py::TestEndings::test_(interrupted_with_workers|json_for_another_program)",
            r"cli/test_visible_text\.py::TestCommands::test_rank_on_a_terminal",
            r"integrations/test_listwise_training\.py::test_the_example_runs",
            r"docs/test_site_browser\.py::test_every_page_fits_the_window",
            r"serve/test_serve_live\.py::test_two_models_and_their_page",
            r"teachers/test_sample\.py::test_the_same_in_processes",
            r"training/test_debcse_runs\.py::test_what_looks_different",
            # pages at every width and in every light [desktop, light]
            r"page/test_serve_page\.py::test_looked_at\[(phone-light|desktop-dark)",
            r"report/test_report_page\.py::test_looked_at\[(one-desktop-dark|one-phone|several-phone-light|several-desktop-dark)",
            # graphs of other models [bert]
            r"export/test_export_graph\.py::test_(vectors_are_the_encoders|batch_and_length_are_free)\[(roberta|mobilebert)",
            r"export/test_export_graph\.py::test_a_templates_mask_is_pooled_in_the_graph\[bert",
            r"encoder/test_modules\.py::TestTruncation::test_an_onnx_graph",
            r"export/test_onnx_by_name\.py::test_its_scores.*\[(roberta|mobilebert)",
            # the service under load, and at its end [the parts of it: connections, shares, batching]
            r"benchmarks/test_load_bench\.py",
            r"benchmarks/test_bench_commands\.py::(TestEncode::test_all_of_it|TestTrain::test_scored_lists)",
            r"benchmarks/test_bench_(transfer\.py::test_both_ways|loops\.py::test_the_profile)",
            # two processes at once [kills of each, faults of each writer]
            r"text/test_token_store\.py::test_two_processes_at_once",
            r"teachers/test_store_damage\.py::test_one_process_is_killed",
            r"search/test_search_kills\.py::test_killed_at_every_moment\[build-exact",
            # a second classifier and a second index of the same [the first]
            r"evaluation/test_transfer_regression\.py::test_every_problem.*\[adam-3",
            r"teachers/test_rank_encoder\.py::TestEvaluation::test_everyday\[approximate",
            r"serve/test_tsne\.py::TestWhole::test_beside_scikit_learn",
            # runs that go on [method_contract, steps, kills]
            r"training/test_dev_tasks\.py::TestHeldOut::test_a_resumed_run",
            r"training/test_sweep\.py::TestGoingOn::test_an_interrupted_run_is_resumed",
            r"adaptation/test_adapt\.py::test_students_start_from_tsdae",
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

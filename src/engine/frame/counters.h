// Counters that several tasks have. A counter of one task alone stands in its folder.
#pragma once

#include <initializer_list>
#include <vector>

#include "longformer/report.h"

namespace longformer::engine {

inline constexpr CountSentence kLeftOut = {.one = "left out {n|broken example}; {first_skipped}",
                                           .many = "left out {n|broken example}; {first_skipped}"};
inline constexpr CountSentence kAreEmpty = {.one = "{n} example is empty",
                                            .many = "{n} examples are empty"};

inline constexpr Counter kSkipped = {.name = "skipped",
                                     .meaning = "examples left out as broken (`--skip-invalid`)",
                                     .evaluation = kLeftOut,
                                     .training = kLeftOut};
inline constexpr Counter kMissing = {
    .name = "missing",
    .meaning =
        "examples without a prediction, which count as wrong: of `--score`, and what the "
        "model could not read in tasks where it counts",
    .evaluation = {.one = "{n} example has no prediction, and counts as wrong",
                   .many = "{n} examples have no prediction, and count as wrong"}};
inline constexpr Counter kEmpty = {.name = "empty",
                                   .meaning = "examples without text, which are scored",
                                   .evaluation = kAreEmpty,
                                   .training = kAreEmpty};

inline constexpr Counter kTruncatedExamples = {
    .name = "truncated_examples",
    .meaning = "examples that were cut",
    .evaluation = {.one = "{n} of {examples|example} is longer than the model: cut "
                          "{truncated_tokens} of {tokens|token}",
                   .many = "{n} of {examples|example} are longer than the model: cut "
                           "{truncated_tokens} of {tokens|token}"},
    .is_of_model = true};
inline constexpr Counter kTruncatedTokens = {
    .name = "truncated_tokens", .meaning = "tokens cut off", .is_of_model = true};
inline constexpr Counter kSegmentedExamples = {
    .name = "segmented_examples",
    .meaning = "examples that were read in several segments",
    .evaluation = {.one = "{n} of {examples|example} is longer than the model: read in segments",
                   .many = "{n} of {examples|example} are longer than the model: read in segments"},
    .is_of_model = true};
/// In a training; an example may be several documents.
inline constexpr Counter kTruncatedDocuments = {
    .name = "truncated_documents",
    .meaning = "documents that were cut",
    .training = {.one = "{n} document is longer than the model: cut {truncated_tokens|token}",
                 .many = "{n} documents are longer than the model: cut {truncated_tokens|token}"},
    .is_of_model = true};

inline constexpr Counter kUnreadWords = {
    .name = "unread_words",
    .meaning = "words that no token was read of",
    .evaluation = {.one = "{n} word was not read, and has no label or mention",
                   .many = "{n} words were not read, and have no label or mention"},
    .scope = CountScope::parts,
    .is_of_model = true};

/// Those of examples that a model reads, and `own` ones of the task behind them.
std::vector<const Counter*> reading_counters(std::initializer_list<const Counter*> own = {});
/// Counters of a task in which an example that the model could not read counts as wrong.
std::vector<const Counter*> official_counters(std::initializer_list<const Counter*> own = {});

}  // namespace longformer::engine

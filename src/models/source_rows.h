// Fewer rows of a document for a decoder that writes long texts: each stands for neighbouring
// tokens, so that a token that is written costs the same however long the document is
// (docs/spec/led-and-generation.md#b16).
#pragma once

#include <vector>

#include "models/attention/attention.h"

namespace longformer::models {

/// Tokens that a row stands for in a document of n tokens, of which there are at most `most` rows.
Index tokens_of_row(Index n, Index most);

/// Rows of such a document.
Index rows_of_source(Index n, Index most);

/// Means of neighbouring tokens that are visible, at most `most` rows for each document; shorter
/// documents stay as they are, and all do where it is 0.
SourceStates few_source_rows(const ops::Context& context, SourceStates source, Index most);

/// The probabilities of rows [m, rows] as those of the n tokens that they stand for [m, n]: tokens
/// of a row have equal parts of its own.
std::vector<float> weights_of_tokens(std::vector<float> probabilities, Index n, Index most);

}  // namespace longformer::models

// How tokens with labels become entities.
#pragma once

namespace longformer {

/// How tokens become entities, as in `transformers`. A word is a token with the tokens that
/// continue it; a group is a run of tokens or words of one label, where a label "B-…" begins a new
/// one.
enum class Aggregation {
  none,     ///< every token by itself, with its whole label
  simple,   ///< groups of tokens
  first,    ///< groups of words; a word has the scores of its first token
  average,  ///< groups of words; a word has the mean scores of its tokens
  max,      ///< groups of words; a word has the scores of its surest token
};

}  // namespace longformer

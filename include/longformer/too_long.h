// What to do with a text of more tokens than a model takes.
#pragma once

namespace longformer {

enum class TooLong {
  /// Throw Error with the length, the limit, and the remedies.
  refuse,
  /// Keep the first tokens that fit.
  truncate,
  /// Cut into overlapping segments of the full length; vectors pool over all tokens, each token
  /// taken from the segment in which it has most context.
  split,
};

}  // namespace longformer

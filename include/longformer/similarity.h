// How the vectors of two texts are compared.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace longformer {

/// The measure that a model was trained with, as sentence-transformers names it. Larger is
/// nearer for all of them: the two distances count with a minus sign.
enum class Similarity { cosine, dot, euclidean, manhattan };

/// Parses cosine, dot, euclidean or manhattan. Throws Error for anything else.
Similarity similarity(const std::string& name);
std::string_view name_of(Similarity similarity);

/// The similarity of two vectors of one size. The cosine with a vector of zeros is 0.
float similarity(Similarity kind, std::span<const float> a, std::span<const float> b);

}  // namespace longformer

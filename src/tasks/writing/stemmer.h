// The Porter stemmer with the extensions of NLTK (docs/spec/tasks.md#c6-stemmer; M. F. Porter, "An
// algorithm for suffix stripping", 1980).
#pragma once

#include <string>

namespace longformer::tasks {

/// The stem of a word of lower-case ASCII letters and digits.
std::string stem(std::string word);

}  // namespace longformer::tasks

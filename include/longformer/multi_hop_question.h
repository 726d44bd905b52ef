// Questions over several paragraphs that are read together, as those of HotpotQA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longformer {

/// A paragraph with its sentences, in order; one may be empty.
struct Paragraph {
  std::string title;
  std::vector<std::string> sentences;
};

struct MultiHopQuestion {
  std::string question;
  std::vector<Paragraph> paragraphs;
};

}  // namespace longformer

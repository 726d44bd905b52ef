// A question with several answers to choose from.
#pragma once

#include <string>
#include <vector>

namespace longformer {

/// Every choice is read as the pair `context`, `question choice`; without a context as the pair
/// `question`, `choice`; without a question as `context`, `choice`.
struct ChoiceQuestion {
  std::string context;
  std::string question;
  std::vector<std::string> choices;
  /// The texts that the context consists of, where the data say so (WikiHop); a head for candidate
  /// scoring puts a separator at both ends of each.
  std::vector<std::string> supports = {};
};

}  // namespace longformer

#include <algorithm>
#include <utility>

#include "longformer/report.h"

namespace longformer {

std::vector<CountNote> notes_of(const Evaluation& result) {
  std::vector<CountNote> notes = notes_of(result.counts, &Counter::evaluation,
                                          {.examples = result.examples,
                                           .tokens = result.tokens,
                                           .first_skipped = result.first_skipped});
  const auto of_examples = std::ranges::find_if(
      notes, [](const CountNote& note) { return note.scope != CountScope::data_set; });
  std::vector<CountNote> of_data;
  for (const std::string& text : result.notes) of_data.push_back({.text = text});
  notes.insert(of_examples, of_data.begin(), of_data.end());
  return notes;
}

}  // namespace longformer

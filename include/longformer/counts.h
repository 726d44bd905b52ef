// Counters of what the reader of a result should know, such as examples that were cut.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longformer {

/// A sentence for one and for several; empty: nothing is said. In it `{n}` stands for the number,
/// `{NAME}` for that of another counter, or of "examples" or "tokens", `{NAME|noun|nouns}` for the
/// number with its noun (nouns: noun and an s), `{A+B|…}` for a sum, and `{first_skipped}` for what
/// was wrong with the first example that was left out.
struct CountSentence {
  std::string_view one = {}, many = {};
};

/// What is counted. Sentences stand in this order.
enum class CountScope { data_set, examples, parts };

/// A counter is described once, as a constant of the code that counts. JSON, notes, tables, Python
/// and docs/evaluate.md follow from it.
struct Counter {
  std::string_view name;
  /// For the table in docs/evaluate.md.
  std::string_view meaning;
  /// The notes of an evaluation, and of a training about its data.
  CountSentence evaluation = {}, training = {};
  /// The name of its row in the table of results; empty: it has none.
  std::string_view row = {};
  /// The option that changes it; empty for none.
  std::string_view option = {};
  CountScope scope = CountScope::examples;
  /// A model counts it, so that a file of predictions has none.
  bool is_of_model = false;
};

struct Count {
  const Counter* counter = nullptr;
  std::int64_t number = 0;
};

/// Counters with their numbers, in the order in which they were added.
class Counts {
 public:
  Counts() = default;
  /// All are 0.
  explicit Counts(std::span<const Counter* const> counters);

  /// The number of the counter, which is added where there is none of its name.
  std::int64_t& operator[](const Counter& counter);
  /// The number of the counter of that name; 0 where there is none.
  std::int64_t operator[](std::string_view name) const;

  const std::vector<Count>& all() const { return counts_; }

 private:
  std::vector<Count> counts_;
};

/// What is to be said of a count that is not 0.
struct CountNote {
  CountScope scope = CountScope::examples;
  std::string text;
  /// Counter::option.
  std::string_view option = {};
};

/// Numbers and words that sentences name beside the counts.
struct CountContext {
  std::int64_t examples = 0, tokens = 0;
  std::string_view first_skipped = {};
};

/// The sentences of the counts that are not 0, in the order of their scopes; equal ones once.
std::vector<CountNote> notes_of(const Counts& counts, CountSentence Counter::*sentence,
                                const CountContext& context);

}  // namespace longformer

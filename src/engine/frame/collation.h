// From examples of a data set to rows of tokens with what the model shall say of them
// (docs/spec/encoder.md#a6, docs/spec/tasks.md#c4, docs/spec/tokenizers.md): what the tasks have in
// common.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/frame/task.h"

namespace longformer::engine {

/// A token that no loss looks at.
constexpr std::int32_t kIgnoredLabel = ops::kIgnored;

/// Rows that go through a model together: for most tasks one row, of multiple choice one per
/// choice, of candidate scoring one per part of the supports.
struct Example {
  std::vector<TokenRow> rows;
  /// One for each row.
  std::vector<DocumentTarget> targets;
};

/// All rows of a reading as one example, without targets; takes their tokens.
Example one_example(Reading& reading);

/// Rows of texts, and what became of the texts. The rows of a document that TooLong::split cuts are
/// examples of their own.
class Collator {
 public:
  /// The tokenizer must outlive the collator. Throws Error for options that leave no room.
  Collator(const Tokenizer& tokenizer, ReadingOptions options, bool label_all_pieces = false);

  const RowReader& reader() const { return reader_; }
  bool label_all_pieces() const { return label_all_pieces_; }
  /// Sums over everything collated since construction.
  const CollationReport& report() const { return report_; }
  CollationReport& report() { return report_; }

  /// One example for each row, of which it takes the tokens; without targets.
  std::vector<Example> examples_of(Reading& reading);
  /// One of all rows.
  Example example_of(Reading& reading);
  /// None: what is read of the document teaches nothing.
  void drop(const Reading& reading) { count(reading, /*rows=*/0); }

  /// Keeps what was read of a record for its evaluations, where there will be some: a Reading whose
  /// rows were taken, or what the task reads instead.
  template <typename Read>
  void keep(Read reading) {
    if (keeps_readings_) kept_ = std::move(reading);
  }
  void keep_readings(bool keeps) { keeps_readings_ = keeps; }
  bool keeps_readings() const { return keeps_readings_; }
  /// Values that were kept since the last call; empty for none.
  std::any take_kept() { return std::exchange(kept_, std::any()); }

 private:
  void count(const Reading& reading, Index rows);

  RowReader reader_;
  bool label_all_pieces_;
  bool keeps_readings_ = false;
  std::any kept_;
  CollationReport report_;
};

/// Lays examples behind each other. Throws Error for ids or types that the model does not have, and
/// for rows longer than it takes.
TrainingBatch training_batch(const models::EncoderConfig& config,
                             std::span<const Example> examples);

/// Examples that stay as they are in every epoch.
class CollatedExamples : public TrainingSet {
 public:
  /// `read` says what reading the records found.
  CollatedExamples(const CollationSetup& setup, const DataReport& read)
      : collator_(setup.tokenizer, setup.reading, setup.label_all_pieces), config_(setup.config) {
    collator_.report().data = read;
    collator_.keep_readings(setup.keeps_readings);
  }

  /// Collates the record at `place`, or counts it as left out. Throws Error.
  void add(const std::string& place, const DataOptions& options,
           const std::function<std::vector<Example>(Collator&)>& collate);

  Index size() const override { return static_cast<Index>(examples_.size()); }
  std::span<const Index> lengths() const override { return lengths_; }
  TrainingBatch batch(std::span<const Index> examples, const Epoch& epoch) const override;
  const CollationReport& report() const override { return collator_.report(); }
  std::span<const ReadRecord> records() const override { return records_; }

 protected:
  /// The example of that number as it is in an epoch.
  virtual Example example(Index index, const Epoch& epoch) const {
    static_cast<void>(epoch);
    return examples_[at(index)];
  }

 private:
  Collator collator_;
  const models::EncoderConfig& config_;
  std::vector<Example> examples_;
  std::vector<Index> lengths_;
  std::vector<ReadRecord> records_;
};

/// The training set of records that become examples by `collate(collator, record)`.
template <typename Data, typename Collate>
std::unique_ptr<TrainingSet> collated(const Data& data, const CollationSetup& setup,
                                      const Collate& collate) {
  auto set = std::make_unique<CollatedExamples>(setup, data.report);
  for (const auto& record : data.examples) {
    set->add(place_of(data.path, record.origin), setup.data,
             [&](Collator& rows) { return collate(rows, record); });
  }
  return set;
}

}  // namespace longformer::engine

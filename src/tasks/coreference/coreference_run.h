// Evaluating a coreference model: every document is read and resolved as a whole.
#pragma once

#include <utility>
#include <vector>

#include "engine/frame/counters.h"
#include "engine/frame/evaluation_run.h"
#include "tasks/coreference/coreference_head.h"
#include "tasks/coreference/coreference_reader.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

struct ResolvedWords {
  CoreferenceReading read;
  CoreferenceResult found;
};

/// Runs the model over all records in order: `words_of(record)` gives the words of each,
/// `score(record, resolved, prediction)` compares, `miss(record)` takes what the model could not
/// read, which counts as if it had found nothing. Throws Error.
template <typename Record, typename WordsOf, typename Score, typename Miss>
void resolve_each(EvaluationRun& run, const CoreferenceOptions& options,
                  const std::vector<Record>& records, const WordsOf& words_of, const Score& score,
                  const Miss& miss) {
  const CoreferenceReader reader(run.model.tokenizer(), run.options.reading, options,
                                 coreference_config(run.model.config()));
  for (std::size_t number = 0; number < records.size(); ++number) {
    const Record& record = records[number];
    ResolvedWords resolved;
    const Document document = read_document([&] {
      const auto* kept = run.kept<CoreferenceReading>(number);
      resolved.read = kept != nullptr ? *kept : reader.read(words_of(record));
      run.with_states(number, resolved.read.reading.rows,
                      [&](const ops::Context& context, const Head& head, const Tensor& hidden) {
                        resolved.found = dynamic_cast<const CoreferenceHead&>(head).resolve(
                            context, hidden, resolved.read.words);
                      });
      return std::move(resolved.read.reading);
    });
    const bool is_read = run.one(record.origin, document, [&](Json& prediction) {
      run.result.counts[kUnreadWords] += resolved.read.unread_words;
      score(record, resolved, prediction);
    });
    if (is_read) continue;
    ++run.result.counts[kMissing];
    miss(record);
  }
  run.finish();
}

}  // namespace longformer::tasks

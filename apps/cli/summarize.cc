// longformer summarize: a short text about each document.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "generation_flags.h"
#include "output.h"
#include "results.h"
#include "retrieval.h"
#include "search_report.h"
#include "verbs.h"

namespace longformer::cli {
namespace {

struct SummaryFlags {
  WritingFlags writing;
  RetrievalFlags retrieval;
  std::vector<std::string> topics;
};

RetrievalInputs inputs_of(const SummaryFlags& flags) {
  return {.flags = flags.retrieval, .model = flags.writing.model, .inputs = flags.writing.inputs};
}

/// Summaries of what a search finds for each topic.
class TopicRun {
 public:
  TopicRun(const SummaryFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        generator_(TextGenerator::load(flags.writing.model.folder(),
                                       flags.writing.model.load_options(messages))),
        request_(generator_.for_summaries(flags.writing.request)),
        retrieval_(inputs_of(flags), messages),
        results_(flags.writing.model, {"question", "text", "score", "end", "tokens", "truncated",
                                       "segments", "read", "error"}) {}

  void run() {
    each_question(flags_.topics, flags_.writing.inputs.encoding(),
                  [this](const std::string& topic) { summarize(topic); });
    results_.finish();
  }

 private:
  void summarize(const std::string& topic) {
    try {
      const std::vector<RetrievedPart> parts = retrieval_.parts(topic);
      if (parts.empty()) throw Error("no passage has words of it");
      const std::string text = joined_text(parts);
      const WrittenDocument result = generator_.generate({&text, 1}, request_).front();
      if (!result.error.empty()) throw Error(result.error, result.remedies);
      write(topic, parts, result);
    } catch (const Error& error) {
      tell_failure("question", topic, error, messages_, results_);
    }
    results_.flush();
  }

  void write(const std::string& topic, const std::vector<RetrievedPart>& parts,
             const WrittenDocument& result) {
    if (!results_.has_rows()) {
      for (const WrittenText& one : result.texts) {
        const std::string line = on_one_line(one.text) + "\n";
        const bool is_only_one = flags_.topics.size() == 1;
        results_.output().write(is_only_one ? line : on_one_line(topic) + "\t" + line);
      }
      return;
    }
    std::vector<JsonLine> read;
    for (const RetrievedPart& part : parts) read.emplace_back().add_members(to_json(part));
    JsonLine json;
    json.add("question", topic).add_members(to_json(result));
    results_.add_list(json.add_objects("read", read), "texts");
  }

  const SummaryFlags& flags_;
  Messages& messages_;
  TextGenerator generator_;
  GenerationRequest request_;
  Retrieval retrieval_;
  Results results_;
};

}  // namespace

void add_summarize(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<SummaryFlags>();
  WritingFlags& writing = flags->writing;
  CLI::App& verb = add_verb(
      program,
      {.name = "summarize",
       .description = "Write summaries of documents.",
       .details = "MODEL has a decoder (LED, BART, Pegasus and kin) and was fine-tuned for it. The "
                  "first token of a "
                  "document has global attention unless --global-attention says otherwise; the "
                  "folder says how texts are searched for, and options here come before it. "
                  "Without a length from either, a summary has at most 512 tokens. With --retrieve "
                  "a search finds the best passages for each --question in files, folders or an "
                  "index, and the summary is one of these.",
       .examples =
           "longformer summarize MODEL report.txt\n"
           "longformer summarize MODEL articles.jsonl --text-field text --num-beams 4 --json\n"
           "longformer summarize MODEL book.txt --max-new-tokens 200\n"
           "longformer summarize MODEL --index notes.index --embedder EMBEDDER --retrieve 12 "
           "--question \"the new contract\""});
  add_model(verb, writing.model);
  add_inputs(verb, writing.inputs);
  add_repeatable(verb, "-q,--question", flags->topics,
                 "with --retrieve: a question or a topic of a summary; may be repeated");
  add_retrieval(verb, flags->retrieval);
  add_generation_options(verb, writing.request.options);
  add_writing(verb, writing);
  add_results(verb, writing.model);
  add_compute(verb, writing.model);
  refuse_device(verb, "a decoder");
  verb.callback([flags, &action] {
    if (!flags->topics.empty() && !flags->retrieval.is_asked()) {
      throw UsageError("--question", "expected --retrieve or --index beside it");
    }
    action = [flags](Messages& messages) {
      if (flags->retrieval.is_asked()) {
        check(inputs_of(*flags));
        return TopicRun(*flags, messages).run();
      }
      write_texts(flags->writing, true, messages);
    };
  });
}

}  // namespace longformer::cli

#include "qa_retrieved.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "control_characters.h"
#include "output.h"
#include "results.h"
#include "search_report.h"

namespace longformer::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

RetrievalInputs inputs_of(const RetrievedQuestions& asked) {
  return {.flags = asked.retrieval, .model = asked.model, .inputs = asked.inputs};
}

class RetrievedRun {
 public:
  RetrievedRun(const RetrievedQuestions& asked, Messages& messages)
      : asked_(asked),
        messages_(messages),
        options_(asked.options),
        answerer_(QuestionAnswerer::load(asked.model.token_model_folder(),
                                         asked.model.load_options(messages))),
        retrieval_(inputs_of(asked), messages),
        results_(asked.model,
                 {"question", "file", "score", "logit", "begin", "end", "place", "text", "part",
                  "rank", "tokens", "truncated", "segments", "error"}) {
    // Passages of scripts with many tokens may be longer than a short model.
    if (options_.too_long == TooLong::refuse) {
      options_.too_long = TooLong::split;
      const std::int64_t shared = answerer_.model().info().max_tokens / 4;
      options_.stride = std::max(options_.max_answer_tokens, std::min(shared, options_.stride));
    }
  }

  void run() {
    each_question(asked_.questions, asked_.inputs.encoding(),
                  [this](const std::string& question) { answer(question); });
    results_.finish();
  }

 private:
  void answer(const std::string& question) {
    const Clock::time_point begin = Clock::now();
    try {
      const std::vector<RetrievedPart> parts = retrieval_.parts(question);
      const double search_seconds = seconds_since(begin);
      const RetrievedAnswers found =
          answers_in(parts, question, answerer_, options_, retrieval_.options());
      if (parts.empty()) {
        messages_.note(fmt::format("question {}: nothing found to read", in_quotes(question)));
      }
      if (found.truncated > 0) {
        messages_.note(fmt::format("question {}: {}, cut {}", in_quotes(question),
                                   counted(found.tokens, "token"), grouped(found.truncated)));
      }
      if (results_.has_rows()) {
        write_json(question, parts, found, {search_seconds, seconds_since(begin)});
      } else {
        write_text(question, parts, found);
      }
    } catch (const Error& error) {
      tell_failure("question", question, error, messages_, results_);
    }
    results_.flush();
  }

  void write_text(const std::string& question, const std::vector<RetrievedPart>& parts,
                  const RetrievedAnswers& found) {
    for (const RetrievedAnswer& one : found.answers) {
      results_.output().write(fmt::format(
          "{}\t{}\t{:.4f}\t{}\t{}\t{}\n", quoted_name(parts[one.part].file), on_one_line(question),
          one.rank, one.answer.span.begin, one.answer.span.end, on_one_line(one.answer.text)));
    }
  }

  struct Times {
    double search = 0, all = 0;
  };

  void write_json(const std::string& question, const std::vector<RetrievedPart>& parts,
                  const RetrievedAnswers& found, const Times& times) {
    std::vector<JsonLine> answers, read;
    for (const RetrievedAnswer& one : found.answers) {
      JsonLine& json = answers.emplace_back();
      json.add("file", parts[one.part].file).add_members(to_json(one.answer));
      json.add("part", static_cast<std::int64_t>(one.part)).add("rank", one.rank);
    }
    for (const RetrievedPart& part : parts) read.emplace_back().add_members(to_json(part));
    JsonLine json;
    json.add("question", question).add_objects("answers", answers).add_objects("read", read);
    json.add("tokens", found.tokens).add("truncated", found.truncated);
    json.add("segments", found.segments).add("search_seconds", times.search);
    json.add("seconds", times.all);
    // A table has a row for a question without an answer too.
    found.answers.empty() ? results_.add(json) : results_.add_list(json, "answers");
  }

  const RetrievedQuestions& asked_;
  Messages& messages_;
  AnswerOptions options_;
  QuestionAnswerer answerer_;
  Retrieval retrieval_;
  Results results_;
};

}  // namespace

void answer_retrieved(const RetrievedQuestions& asked, Messages& messages) {
  check(inputs_of(asked));
  RetrievedRun(asked, messages).run();
}

}  // namespace longformer::cli

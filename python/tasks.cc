// Results of models for documents: classes, entities, answers, choices, clusters, masked tokens.
#include "longformer/tasks.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "model.h"
#include "options.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

Rows classify(Loaded<Classifier>& classifier, const Texts& list, const Options& given) {
  ClassifyOptions options;
  std::vector<std::string> pairs;
  Keywords keywords("classify", given);
  take_fields(keywords, fields(options));
  keywords.take("pairs", pairs);
  keywords.finish();
  const std::vector<std::string> texts = texts_of(list);
  std::vector<Classification> found = classifier.call([&](const Classifier& one) {
    std::vector<Classification> all;
    std::size_t next = 0;
    one.classify(
        [&]() -> std::optional<ClassifyInput> {
          if (next == texts.size()) return std::nullopt;
          const std::size_t i = next++;
          return ClassifyInput{texts[i], pairs.empty() ? std::nullopt : std::optional(pairs[i])};
        },
        [&all](const ClassifyOutcome& outcome) {
          if (!outcome.error.empty()) {
            throw Error(ErrorParts{.subject = "document " + std::to_string(all.size()),
                                   .reason = outcome.error,
                                   .document = std::ssize(all),
                                   .remedies = outcome.remedies});
          }
          all.push_back(outcome.classification);
        },
        options);
    return all;
  });
  nb::list results;
  for (const Classification& one : found) {
    nb::list labels;
    for (const ClassScore& score : one.scores)
      labels.append(nb::make_tuple(score.label, score.score));
    results.append(
        nb::make_tuple(labels, nb::cast(one.logits), one.tokens, one.truncated, one.segments));
  }
  return results;
}

Rows tag(Loaded<Tagger>& tagger, const Texts& list, const Options& given) {
  TagOptions options;
  Keywords keywords("ner", given);
  take_fields(keywords, fields(options));
  keywords.finish();
  const std::vector<std::string> texts = texts_of(list);
  const auto found = tagger.call([&](const Tagger& one) { return one.tag(texts, options); });
  nb::list results;
  for (const std::vector<Entity>& document : found) {
    nb::list entities;
    for (const Entity& one : document) {
      entities.append(nb::make_tuple(one.label, one.score, one.span.begin, one.span.end, one.text,
                                     one.first_token, one.end_token));
    }
    results.append(entities);
  }
  return results;
}

Record answer_of(std::size_t document, const Answer& answer) {
  return nb::make_tuple(document, answer.score, answer.logit, answer.span.begin, answer.span.end,
                        answer.text);
}

/// The answers of each document in turn, or the best ones of all.
Rows answer(Loaded<QuestionAnswerer>& answerer, const std::string& question, const Texts& list,
            const Options& given) {
  AnswerOptions options;
  bool best = false, no_answer = false;
  Keywords keywords("qa", given);
  take_fields(keywords, fields(options));
  keywords.take("best", best).take("no_answer", no_answer).finish();
  if (best && no_answer) throw Error("best and no_answer: expected one of them, found both");
  const std::vector<std::string> documents = texts_of(list);
  nb::list answers;
  if (best) {
    const auto found = answerer.call([&](const QuestionAnswerer& one) {
      return one.best_answers(question, documents, options);
    });
    for (const DocumentAnswer& one : found) answers.append(answer_of(one.document, one.answer));
    return answers;
  }
  std::vector<Question> questions;
  for (const std::string& document : documents) questions.push_back({question, document});
  const auto found =
      answerer.call([&](const QuestionAnswerer& one) { return one.answer(questions, options); });
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::vector<Answer> ranked = found[i].answers;
    if (no_answer) {
      const Answer none = {.score = found[i].no_answer_score,
                           .logit = found[i].no_answer_logit,
                           .span = {},
                           .text = {}};
      const auto place = std::find_if(ranked.begin(), ranked.end(), [&none](const Answer& one) {
        return one.score < none.score;
      });
      ranked.insert(place, none);
      if (std::ssize(ranked) > options.top_k) ranked.pop_back();
    }
    for (const Answer& one : ranked) answers.append(answer_of(i, one));
  }
  return answers;
}

/// Answers one question: the number of the best choice, probabilities, logits, and what was read.
Record choose(Loaded<Chooser>& chooser, const ChoiceQuestion& asked, const Options& given) {
  ChooseOptions options;
  Keywords keywords("choose", given);
  take_fields(keywords, fields(options));
  keywords.finish();
  const ChoiceAnswer answer = chooser.call([&](const Chooser& one) {
    return one.choose({&asked, 1}, options)[0];
  });
  return nb::make_tuple(answer.best, nb::cast(answer.probabilities), nb::cast(answer.logits),
                        answer.tokens, answer.truncated, answer.segments);
}

/// First and last + 1.
using PythonRange = std::pair<std::int64_t, std::int64_t>;

/// Clusters, words, sentences, tokens, segments.
Record coreference_of(const CoreferenceOutcome& outcome) {
  nb::list clusters;
  for (const std::vector<Mention>& cluster : outcome.clusters) {
    nb::list mentions;
    for (const Mention& one : cluster) {
      mentions.append(nb::make_tuple(one.span.begin, one.span.end, one.text, one.words.first,
                                     one.words.last + 1));
    }
    clusters.append(mentions);
  }
  nb::list words;
  for (const CharacterSpan& word : outcome.words) {
    words.append(nb::make_tuple(word.begin, word.end));
  }
  return nb::make_tuple(clusters, words, nb::cast(outcome.sentences), outcome.tokens,
                        outcome.segments);
}

Rows resolve(Loaded<CoreferenceResolver>& resolver, const Texts& list, const Options& given) {
  ResolveOptions options;
  Keywords keywords("coref", given);
  take_fields(keywords, fields(options));
  take_singletons(keywords, options.without_singletons);
  keywords.finish();
  const std::vector<std::string> texts = texts_of(list);
  const auto outcomes =
      resolver.call([&](const CoreferenceResolver& one) { return one.resolve(texts, options); });
  nb::list documents;
  for (const CoreferenceOutcome& outcome : outcomes) documents.append(coreference_of(outcome));
  return documents;
}

/// The package has checked that words are within the text, and mentions among the words.
std::string conll_of(const nb::str& text, const std::vector<std::vector<PythonRange>>& clusters,
                     const std::vector<PythonRange>& words, std::vector<std::int64_t> sentences,
                     const nb::str& key) {
  CoreferenceOutcome found;
  for (const std::vector<PythonRange>& cluster : clusters) {
    std::vector<Mention>& mentions = found.clusters.emplace_back();
    for (const auto& [first, end] : cluster) {
      mentions.push_back({.words = {first, end - 1}, .span = {}, .text = {}});
    }
  }
  for (const auto& [begin, end] : words) found.words.push_back({begin, end});
  found.sentences = std::move(sentences);
  return conll_text(std::string(utf8(text)), found, std::string(utf8(key)));
}

Rows fill(Loaded<MaskFiller>& filler, const Texts& list, const Options& given) {
  FillMaskOptions options;
  Keywords keywords("fill_mask", given);
  take_fields(keywords, fields(options));
  keywords.finish();
  const std::vector<std::string> texts = texts_of(list);
  const auto found = filler.call([&](const MaskFiller& one) {
    std::vector<FilledText> all;
    for (const std::string& text : texts) {
      try {
        all.push_back(one.fill(text, options));
      } catch (const Error& error) {
        throw error_of_text(error, all.size());
      }
    }
    return all;
  });
  nb::list results;
  for (const FilledText& text : found) {
    nb::list masks;
    for (const FilledMask& mask : text.masks) {
      nb::list candidates;
      for (const MaskCandidate& one : mask.candidates) {
        candidates.append(nb::make_tuple(one.id, one.token, one.text, one.probability));
      }
      masks.append(nb::make_tuple(mask.position, candidates));
    }
    results.append(nb::make_tuple(text.text, masks, text.tokens, text.truncated));
  }
  return results;
}

}  // namespace

void bind_tasks(nb::module_& module) {
  bind_task<Classifier>(module, "Classifier").def("classify", &classify, "texts"_a, "options"_a);
  bind_task<Tagger>(module, "Tagger").def("tag", &tag, "texts"_a, "options"_a);
  bind_task<QuestionAnswerer>(module, "QuestionAnswerer")
      .def("answer", &answer, "question"_a, "documents"_a, "options"_a);
  bind_task<Chooser>(module, "Chooser")
      .def(
          "choose",
          [](Loaded<Chooser>& self, const nb::str& question, const Texts& choices,
             const nb::str& context, const Texts& supports, const Options& options) {
            const ChoiceQuestion asked = {.context = std::string(utf8(context)),
                                          .question = std::string(utf8(question)),
                                          .choices = texts_of(choices),
                                          .supports = texts_of(supports)};
            return choose(self, asked, options);
          },
          "question"_a, "choices"_a, "context"_a, "supports"_a, "options"_a);
  bind_task<CoreferenceResolver>(module, "CoreferenceResolver")
      .def("resolve", &resolve, "texts"_a, "options"_a);
  module.def("conll_text", &conll_of, "text"_a, "clusters"_a, "words"_a, "sentences"_a, "key"_a);
  bind_task<MaskFiller>(module, "MaskFiller").def("fill", &fill, "texts"_a, "options"_a);
}

}  // namespace longformer

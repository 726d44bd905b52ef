#include "retrieval.h"

#include <fmt/format.h>

#include <algorithm>

#include "longformer/error.h"
#include "longformer/text.h"
#include "option_flags.h"

namespace longformer::cli {

void check(const RetrievalInputs& given) {
  const InputOptions& inputs = given.inputs;
  if (!inputs.texts.empty() || !inputs.shard.is_whole()) {
    throw UsageError("--text and --shard are not for --retrieve, which searches in files");
  }
  if (inputs.files.empty() && given.flags.index.empty()) {
    throw UsageError("nothing to search in: name files, or an index with --index");
  }
  const bool reads_stdin = std::ranges::find(inputs.files, "-") != inputs.files.end();
  if (reads_stdin) throw UsageError("--retrieve searches in files and folders, not in stdin");
  check_filter(given.flags.query.filter);
  const bool is_of_words = given.flags.embedder.empty();
  const bool wants_words =
      !given.flags.is_mode_given || given.flags.query.mode == SearchMode::lexical;
  if (is_of_words && !wants_words) {
    throw UsageError("--mode", "expected --embedder beside it, or lexical");
  }
}

void add_retrieval(CLI::App& verb, RetrievalFlags& flags) {
  const auto grouped = [](OptionFields fields) {
    for (OptionField& field : fields) field.group = "Retrieval";
    return fields;
  };
  const OptionFields options = grouped(fields(flags.options));
  const OptionFields query = grouped(fields(flags.query));
  add_fields(verb, only(options, {"retrieve", "around"}));
  const auto add_name = [&verb](const char* name, std::string& value, const char* help,
                                const char* type) {
    verb.add_option(name, value, help)->type_name(type)->group("Retrieval");
  };
  add_name("--index", flags.index,
           "search in this index of 'longformer search', and keep what is read of FILES in it",
           "FILE");
  add_name("--embedder", flags.embedder,
           "the model of the index, for a search by meaning; without it words are searched",
           "MODEL");
  add_fields(verb, only(query, {"mode", "within", "filter"}));
  add_name("--rerank", flags.reranker, "this cross-encoder scores the best passages again",
           "MODEL");
  for (const auto& [name, patterns] : {std::pair("--include", &flags.patterns.include),
                                       std::pair("--exclude", &flags.patterns.exclude)}) {
    add_repeatable(verb, name, *patterns,
                   "of folders read (or leave out) only files that match this; see search")
        ->type_name("GLOB")
        ->group("Retrieval");
  }
  const CLI::Option* retrieve = verb.get_option("--retrieve");
  const CLI::Option* mode = verb.get_option("--mode");
  verb.parse_complete_callback([&flags, retrieve, mode] {
    flags.is_retrieve_given = retrieve->count() > 0;
    flags.is_mode_given = mode->count() > 0;
  });
}

Retrieval::Retrieval(const RetrievalInputs& given, Messages& messages)
    : flags_(given.flags), messages_(messages), query_(given.flags.query) {
  documents_ = {.inputs = given.inputs, .patterns = flags_.patterns};
  documents_.inputs.format = "auto";
  documents_.inputs.question_field.clear();
  open(given);
  reranker_ = loaded_reranker(given.model, flags_.reranker, messages_);
  if (reranker_) query_.reranker = &*reranker_;
  names_.emplace(flags_.index, *index_);
  if (!documents_.inputs.files.empty()) {
    add_documents(documents_,
                  embedder_ ? passages_with_vectors(*embedder_, *index_)
                            : passages_of_words(*tokenizer_, *index_),
                  *index_, *names_, messages_);
  }
  if (index_->passages() == 0) {
    throw Error("no document to search in: every input failed or was empty");
  }
  query_.filter = names_->stored(query_.filter);
  index_->check(query_.filter);
  query_.within = names_->within(query_.within, *index_);
}

void Retrieval::open(const RetrievalInputs& given) {
  const IndexFile file = {.name = flags_.index, .reads_documents = !given.inputs.files.empty()};
  const bool is_of_words = flags_.embedder.empty();
  if (is_of_words) query_.mode = SearchMode::lexical;
  file.check();
  if (is_of_words && !file.reads_documents) {
    index_ = SearchIndex::open(flags_.index);
    return;
  }
  if (is_of_words) {
    tokenizer_ = Tokenizer::load(given.model.token_model_folder());
    index_ = SearchIndex::edit(flags_.index, *tokenizer_);
    return;
  }
  const ModelFlags model = other_model(given.model, flags_.embedder);
  embedder_ = Embedder::load(model.encoder_folder(), model.load_options(messages_));
  index_ = file.open(*embedder_, with_mode({}, query_.mode, *embedder_));
}

std::vector<RetrievedPart> Retrieval::parts(const std::string& question) {
  SearchQuery query = query_;
  query.question = question;
  query.note = [&](const std::string& note) {
    messages_.note(fmt::format("question {}: {}", in_quotes(question), note));
  };
  std::vector<RetrievedPart> found =
      retrieved_parts(*index_, embedder_ ? &*embedder_ : nullptr, query, flags_.options);
  ShownNames shown(*names_);
  for (RetrievedPart& part : found) part.file = shown(part.file);
  return found;
}

void each_question(const std::vector<std::string>& questions, const TextEncoding& encoding,
                   const std::function<void(const std::string&)>& ask) {
  for (const std::string& question : questions) ask(question);
  if (!questions.empty()) return;
  TextLines lines("-", encoding);
  for (std::string question; lines.next(question);) {
    if (question.find_first_not_of(" \t") != std::string::npos) ask(question);
  }
}

}  // namespace longformer::cli

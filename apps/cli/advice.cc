#include "advice.h"

#include <utility>

#include "messages.h"

namespace longformer::cli {
namespace {

std::string_view flag_of(Remedy remedy, std::string_view split) {
  switch (remedy) {
    case Remedy::truncate:
      return "--truncate keeps the first ones";
    case Remedy::truncate_context:
      return "--truncate keeps the first ones of the context";
    case Remedy::truncate_question:
      return "--truncate keeps the first ones of the question";
    case Remedy::split:
      return split;
    case Remedy::pooling:
      return "--pooling chooses another";
    case Remedy::format:
      return "--format names it";
    case Remedy::columns:
      return "--columns names those of a file without a header";
    case Remedy::quotes:
      return "--no-quotes reads quotes as text";
    case Remedy::skip_invalid:
      return "--skip-invalid leaves such examples out and counts them";
    case Remedy::evidence:
      return "--evidence names the folder of the documents";
    case Remedy::teacher:
      return "--teacher names a model to learn from";
    case Remedy::adapter:
      return "--adapter names it beside its model";
    case Remedy::resume_or_overwrite:
      return "use --resume-from-checkpoint last or --overwrite-output-dir";
    case Remedy::fewer_checkpoints:
      return "--save-total-limit N keeps fewer checkpoints, --save-strategy no none";
    case Remedy::new_head:
      return "finetune --new-head takes those of the data";
  }
  return "";
}

}  // namespace

std::string advised(std::string message, std::span<const Remedy> remedies, std::string_view split) {
  message = shortened(std::move(message));
  const char* before = " (";
  for (const Remedy remedy : remedies) {
    message.append(before).append(flag_of(remedy, split));
    before = ", ";
  }
  if (!remedies.empty()) message += ")";
  return message;
}

std::string advised(const std::exception& error, std::string_view split) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known == nullptr ? shortened(error.what())
                          : advised(known->what(), known->remedies(), split);
}

}  // namespace longformer::cli

#include "advice.h"

#include <algorithm>
#include <array>
#include <utility>

#include "messages.h"

namespace longformer::cli {
namespace {

struct Advice {
  Remedy remedy;
  std::string_view text;
};

/// An empty text stands for what the caller says of splitting.
constexpr std::array kAdvice = std::to_array<Advice>({
    {Remedy::truncate, "--truncate keeps the first ones"},
    {Remedy::truncate_context, "--truncate keeps the first ones of the context"},
    {Remedy::truncate_question, "--truncate keeps the first ones of the question"},
    {Remedy::split, ""},
    {Remedy::pooling, "--pooling chooses another"},
    {Remedy::format, "--format names it"},
    {Remedy::text_field, "--text-field names that of the text"},
    {Remedy::label_field, "--label-field that of the label"},
    {Remedy::id_field, "--id-field names that of the id"},
    {Remedy::delimiter, "--delimiter names the character between fields"},
    {Remedy::columns, "--columns names those of a file without a header"},
    {Remedy::quotes, "--no-quotes reads quotes as text"},
    {Remedy::skip_invalid, "--skip-invalid leaves such examples out and counts them"},
    {Remedy::evidence, "--evidence names the folder of the documents"},
    {Remedy::teacher, "--teacher names a model to learn from"},
    {Remedy::adapter, "--adapter names it beside its model"},
    {Remedy::resume_or_overwrite, "use --resume-from-checkpoint last or --overwrite-output-dir"},
    {Remedy::fewer_checkpoints,
     "--save-total-limit N keeps fewer checkpoints, --save-strategy no none"},
    {Remedy::new_head, "finetune --new-head takes those of the data"},
});
static_assert(kAdvice.size() == static_cast<std::size_t>(Remedy::new_head) + 1,
              "every remedy has its advice");

}  // namespace

std::string advised(std::string message, std::span<const Remedy> remedies, std::string_view split) {
  message = shortened(std::move(message));
  const char* before = " (";
  for (const Remedy remedy : remedies) {
    const std::string_view text = std::ranges::find(kAdvice, remedy, &Advice::remedy)->text;
    message.append(before).append(text.empty() ? split : text);
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

#include "options.h"

#include <string>
#include <utility>

namespace longformer {

void take_singletons(Keywords& keywords, bool& without) {
  bool singletons = true;
  keywords.take("no_singletons", without).take("singletons", singletons);
  without = without || !singletons;
}

void take_training(Keywords& keywords, OptionFields fields, TrainingOptions& options) {
  const nb::object resume = keywords.take_object("resume_from_checkpoint");
  if (PyBool_Check(resume.ptr())) {
    std::erase_if(fields,
                  [](const OptionField& field) { return field.name == "resume_from_checkpoint"; });
    options.resume_from_checkpoint = resume.is(nb::handle(Py_True)) ? "last" : "";
  }
  take_fields(keywords, fields);
}

}  // namespace longformer

#include <fmt/format.h>

#include <limits>
#include <string>

#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum SublayerKind;

/// The finding of one check on a subject before training: "rule, severity", or nothing.
std::string judged(io::Check check) {
  Subject subject = sound();
  for (ProfileEntry& entry : subject.profile.entries) entry.step = 0;
  ProfileEntry gamma{.site = {0, kAttention, Point::kGamma, NormSlot::kBefore}, .mean = 1};
  gamma.std = 0;
  subject.profile.entries.push_back(gamma);
  subject.profile.checks = {std::move(check)};
  std::string text;
  for (const Finding& f : diagnose(subject)) {
    const char* severity = f.severity == Severity::kBroken       ? "broken"
                           : f.severity == Severity::kSuspicious ? "suspicious"
                                                                 : "note";
    text += fmt::format("{}{}, {}", text.empty() ? "" : "; ", f.rule, severity);
  }
  return text;
}

TEST(BehaviourRules, JudgeWhatIsAboveTheirLimit) {
  struct Case {
    const char* name;
    double limit, sound, wrong;
    const char* severity;  // undeclared
    const char* declared;
    const char* rule = name;
  };
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Case cases[] = {
      {"future-leak", 1e-5, 1e-5, 1.1e-5, "suspicious", "broken"},
      {"batch-leak", 1e-5, 1e-5, 1.1e-5, "suspicious", "broken"},
      {"alone", 1e-5, 1e-5, 1.1e-5, "suspicious", "suspicious", "batch-leak"},
      {"padding-leak", 1e-4, 1e-4, 1.1e-4, "suspicious", "suspicious"},
      {"cache-mismatch", 1e-4, 1e-4, 1.1e-4, "broken", "broken"},
      {"eval-noise", 1e-4, 1e-4, 1.1e-4, "note", "suspicious"},
      {"gradient-missing", kNone, 0, 1, "suspicious", "broken"},
      {"gamma-ignored", kNone, 0, 1, "broken", "broken"},
      {"statistics-detached", 0.1, 0.1, 0.11, "broken", "broken"},
      {"tying-broken", 1, 1, 2, "suspicious", "broken"},
      {"dropout-on-stream", kNone, 0, 0.1, "suspicious", "suspicious"},
      {"attention-scale", 0.125, 0.25, 0.26, "suspicious", "suspicious"},
      {"norm-shared", 1, 1, 2, "note", "suspicious"},
      {"norm-unused", kNone, 0, 1, "suspicious", "suspicious"},
      {"parameter-unused", kNone, 0, 1, "note", "suspicious"},
      {"parameter-unregistered", kNone, 0, 1, "broken", "broken"},
      {"layer-shared", 1, 1, 2, "note", "note"},
      {"parameter-frozen", kNone, 0, 0.1, "note", "suspicious"},
      {"not-in-optimizer", 0, 0, 0.5, "suspicious", "suspicious"},
      {"not-in-optimizer", 0, 0, 0.51, "note", "suspicious"},
      {"initial-loss", 3.4, 5.4, 5.41, "suspicious", "suspicious"},
      {"update-ratio", 0, 0.5, 0.51, "suspicious", "suspicious"},
      {"update-ratio", 0.002, 0.002, 0.0019, "suspicious", "suspicious"},
      {"update-ratio", 0.002, 0, 0.0019, "suspicious", "suspicious"},
      {"update-missing", kNone, 0, 1, "suspicious", "suspicious"},
      {"update-missing", 0.002, 0.002, 0.0019, "suspicious", "suspicious"},
      {"gradient-not-cleared", 0, 0, 0.25, "suspicious", "suspicious"},
      {"ranks-differ", 0, 0, 1, "broken", "broken"},
      {"gradient-zero", kNone, 0, 1, "suspicious", "broken"},
      {"softmax-axis", kNone, 0, 1, "suspicious", "broken"},
      {"attention-constant", kNone, 0, 1, "suspicious", "suspicious"},
      {"heads-alike", kNone, 0, 1, "suspicious", "suspicious"},
      {"head-silent", kNone, 0, 1, "suspicious", "suspicious"},
      {"dropout-before-softmax", kNone, 0, 1, "suspicious", "suspicious"},
      {"cast-to-half", kNone, 0, 1, "suspicious", "suspicious"},
      {"positions-wrong", kNone, 0, 1, "suspicious", "suspicious"},
      {"logits-changed", kNone, 0, 0.1, "suspicious", "suspicious"},
      {"weight-zeros", kNone, 0, 1, "suspicious", "suspicious"},
      {"decay-on-gain", 0, 0, 0.1, "note", "suspicious"},
      {"activation-changed", kNone, 0, 1, "suspicious", "suspicious"},
  };
  for (const Case& c : cases) {
    const io::Check check{.name = c.name, .value = c.sound, .limit = c.limit, .where = "here"};
    EXPECT_EQ(judged(check), "") << c.name;
    io::Check wrong = check;
    wrong.value = c.wrong;
    EXPECT_EQ(judged(wrong), fmt::format("{}, {}", c.rule, c.severity));
    wrong.declared = "it says so";
    EXPECT_EQ(judged(wrong), fmt::format("{}, {}", c.rule, c.declared));
  }
}

TEST(BehaviourRules, SayWhereAndWhyInWords) {
  Subject subject;
  subject.profile.checks = {{.name = "future-leak",
                             .value = 0.125,
                             .limit = 1e-5,
                             .where = "layers.2",
                             .declared = "it is trained on the next token"}};
  const Finding finding = diagnose(subject).at(0);
  EXPECT_EQ(finding.where, "layers.2");
  EXPECT_EQ(finding.what,
            "the output at one token depends on later ones, by 12.5 % of its gradient");
  EXPECT_THAT(finding.because, ::testing::EndsWith("; it is trained on the next token"));
  subject.profile.checks[0].name = "something-new";  // of a later version
  EXPECT_THAT(diagnose(subject), IsEmpty());
}

TEST(BehaviourRules, KnowWhoScalesByInitializationAndWhoWasTrained) {
  Subject subject = sound();
  subject.profile.checks = {{.name = "attention-scale", .value = 1, .limit = 0.125},
                            {.name = "initial-loss", .value = 20, .limit = 3.4}};
  EXPECT_THAT(found(subject), ElementsAre("attention-scale, model"));
  subject.profile.model.model_type = "t5";
  EXPECT_THAT(found(subject), IsEmpty());
}

}  // namespace
}  // namespace addnorm::doctor

//! MACHINE FILE
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let model = corun_model::Model::new(
        std::sync::Arc::new(corun_machine::resolve(&args[1]).unwrap()),
        Default::default(),
    )
    .unwrap();
    let profile = corun_profile::Profile::load(std::path::Path::new(&args[2])).unwrap();
    corun_model::debug_traces(&model, &profile);
}

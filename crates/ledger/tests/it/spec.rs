//! The requirements of the spec that the ledger itself meets, by their numbers.

use crate::home::*;

/// Which copy of a response counts does not depend on which file was collected first.
#[test]
fn the_counted_copy_does_not_depend_on_the_order() {
    let bill = |input: u32, output: u32| {
        line("assistant", &uuid(1), None, "answer").replacen(
            "\"message\":{",
            &format!(
                "\"requestId\":\"req_1\",\"message\":{{\"id\":\"msg_1\",\"usage\":{{\"input_tokens\":{input},\"output_tokens\":{output}}},"
            ),
            1,
        )
    };
    let other = MAIN.replace(SESSION, "00000000-d010-4b20-a591-b7172ef08e66");
    let counted = |first: &str, second: &str| {
        let home = Home::quick();
        for path in [first, second] {
            let text = if path == MAIN { bill(10, 20) } else { bill(20, 10) };
            home.write(path, text);
            home.sync();
        }
        home.assert_rebuilds();
        home.all("SELECT input, output FROM usage WHERE is_counted")
    };
    assert_eq!(counted(MAIN, &other), counted(&other, MAIN));
}

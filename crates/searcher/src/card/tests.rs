//! The card by itself: what runs beside what, what a switch costs, and that the books add up.

use super::{Card, CardModel, Direction, FULL_PPM, Position, What};
use crate::choice::Choices;

const US: u64 = 1_000;

fn kernel(length_ns: u64) -> What {
    What::Kernel { length_ns, width_ppm: FULL_PPM }
}

fn small(length_ns: u64) -> What {
    What::Kernel { length_ns, width_ppm: FULL_PPM / 4 }
}

/// When each of the positions was completed.
fn ends(card: &mut Card, of: &[Position]) -> Vec<u64> {
    card.advance(card.now_ns() + 100_000 * US);
    let done = card.take_done();
    let end = |position: &Position| done.iter().find(|done| done.position == *position);
    of.iter().map(|position| end(position).expect("it ends").at_ns).collect()
}

#[test]
fn a_stream_keeps_its_order_and_streams_overlap() {
    let model = CardModel { tail_ppm: 0, ..CardModel::default() };
    let mut card = Card::new(model);
    let context = card.create_context();
    let other = card.create_stream(context);
    let one = card.submit(context, 0, small(10 * US), 0, Vec::new());
    let behind = card.submit(context, 0, small(10 * US), 0, Vec::new());
    let beside = card.submit(context, other, small(30 * US), 0, Vec::new());
    assert_eq!(ends(&mut card, &[one, behind, beside]), [10 * US, 20 * US, 30 * US]);
    assert_eq!(card.had(context).busy_ns, 30 * US, "the union");
    assert_eq!(card.had(context).work_ns, 50 * US);
    // Full ones take turns.
    let from_ns = card.now_ns();
    let one = card.submit(context, 0, kernel(10 * US), 0, Vec::new());
    let beside = card.submit(context, other, kernel(10 * US), 0, Vec::new());
    let ended = ends(&mut card, &[one, beside]);
    assert_eq!(ended, [from_ns + 10 * US, from_ns + 20 * US]);
}

#[test]
fn full_kernels_of_several_streams_overlap_at_their_ends() {
    let mut card = Card::new(CardModel::default());
    let context = card.create_context();
    let streams = [0, card.create_stream(context), card.create_stream(context)];
    for n in 0..300 {
        card.submit(context, streams[n % 3], kernel(100 * US), 0, Vec::new());
    }
    card.advance(29_000 * US);
    let had = card.had(context);
    // The measured 110.0 % of gate-facts.txt, E.
    let percent = had.work_ns * 1_000 / had.busy_ns;
    assert!((1_095..=1_105).contains(&percent), "{percent}");
}

#[test]
fn switches_are_dry_or_take_a_slice_away() {
    let model = CardModel::default();
    let mut card = Card::new(model.clone());
    let (one, two) = (card.create_context(), card.create_context());
    let first = card.submit(one, 0, kernel(5_000 * US), 0, Vec::new());
    let second = card.submit(two, 0, kernel(100 * US), 10 * US, Vec::new());
    let [slice, dry, preempted] = [model.slice_ns, model.switch_dry_ns, model.switch_preempted_ns];
    let ended = ends(&mut card, &[first, second]);
    assert_eq!(ended[1], slice + preempted + 100 * US);
    assert_eq!(ended[0], 5_100 * US + preempted + dry);
    let books = card.books();
    assert_eq!((books.switches, books.preempted), (2, 1));
    assert_eq!((books.busy_ns, books.switch_ns), (5_100 * US, preempted + dry));
    assert_eq!(books.wall_ns(), card.now_ns());
}

#[test]
fn an_event_behind_a_context_waits_for_all_streams_and_takes_the_device() {
    let mut card = Card::new(CardModel::default());
    let context = card.create_context();
    let (work, marks) = (card.create_stream(context), card.create_stream(context));
    let event = card.create_event();
    card.submit(context, 0, small(10 * US), 0, Vec::new());
    card.submit(context, work, small(30 * US), 0, Vec::new());
    let after = card.tails(context);
    card.submit(context, marks, What::Event { event, is_timed: true, is_whole: true }, 0, after);
    assert_eq!(card.event_done_ns(event), None);
    card.advance(100 * US);
    let event_ns = card.model().context_event_ns;
    let late_ns = card.model().context_event_late_ns;
    assert_eq!(card.event_done_ns(event), Some(30 * US + event_ns + late_ns));
    assert_eq!(card.had(context).events_ns, event_ns);
    // Dropped with its context it counts as done.
    card.submit(context, work, kernel(30 * US), 0, Vec::new());
    let of_stream = What::Event { event, is_timed: true, is_whole: false };
    card.submit(context, work, of_stream, 0, Vec::new());
    assert_eq!(card.event_done_ns(event), None);
    card.drop_context(context);
    assert_eq!(card.event_done_ns(event), Some(0));
    assert!(card.tails(context).is_empty() && !card.is_alive(context));
}

#[test]
fn copies_and_host_functions_need_no_device_but_keep_the_order() {
    let model = CardModel::default();
    let (copy_ns, function_ns) = (model.copy_ns(4 << 20), model.host_function_ns);
    let mut card = Card::new(model);
    let (one, two) = (card.create_context(), card.create_context());
    let copy = What::Copy { direction: Direction::In, bytes: 4 << 20 };
    let first = card.submit(one, 0, copy, 0, Vec::new());
    let behind = card.submit(one, 0, kernel(10 * US), 0, Vec::new());
    let other = card.submit(two, 0, copy, 0, Vec::new());
    let function = card.submit(two, 0, What::HostFunction { length_ns: 5 }, 0, Vec::new());
    let ended = ends(&mut card, &[first, behind, other, function]);
    let expected = [copy_ns, copy_ns + 10 * US, 2 * copy_ns, 2 * copy_ns + function_ns + 5];
    assert_eq!(ended, expected);
    assert_eq!(card.books().busy_ns, 10 * US);
}

#[test]
fn who_comes_waits_for_the_end_of_a_slice_that_began_before() {
    let model = CardModel::default();
    let [slice, preempted] = [model.slice_ns, model.switch_preempted_ns];
    let mut card = Card::new(model);
    let (one, two) = (card.create_context(), card.create_context());
    card.submit(one, 0, kernel(50_000 * US), 0, Vec::new());
    card.advance(3_000 * US);
    let second = card.submit(two, 0, kernel(100 * US), 3_010 * US, Vec::new());
    assert_eq!(ends(&mut card, &[second]), [2 * slice + preempted + 100 * US]);
}

/// No submitted item is lost and the books add up to the nanosecond, for any program.
#[test]
fn books_add_up_whatever_is_submitted() {
    for seed in 0..60 {
        let choices = Choices::new(seed);
        let mut card = Card::new(CardModel::drawn(choices.named("card")));
        for _ in 0..3 {
            let context = card.create_context();
            card.create_stream(context);
            card.create_stream(context);
        }
        let mut kernels = [0_u64; 3];
        for step in 0..400 {
            let of = |key: u64| choices.of(step).of(key);
            let (context, stream) = (of(0).below(3) as usize, of(1).below(3) as usize);
            if !card.is_alive(context) {
                continue;
            }
            let ready_ns = card.now_ns() + of(2).below(5 * US);
            let what = match of(3).below(8) {
                0 => What::Event {
                    event: card.create_event(),
                    is_timed: of(4).is(500_000),
                    is_whole: of(5).is(500_000),
                },
                1 => What::Copy { direction: Direction::Out, bytes: of(4).below(1 << 20) },
                2 => What::HostFunction { length_ns: of(4).below(50 * US) },
                3 => What::Join,
                _ => {
                    kernels[context] += 1;
                    let width_ppm = if of(5).is(500_000) { FULL_PPM } else { FULL_PPM / 3 };
                    What::Kernel { length_ns: of(4).spread(US, 3_000 * US), width_ppm }
                }
            };
            let after =
                if of(6).is(200_000) { card.tails(of(7).below(3) as usize) } else { Vec::new() };
            card.submit(context, stream, what, ready_ns, after);
            card.advance(card.now_ns() + of(8).spread(1, 200 * US));
            assert_eq!(card.books().wall_ns(), card.now_ns(), "seed {seed}");
        }
        while card.next_ns() != u64::MAX {
            card.advance(card.next_ns());
        }
        assert_eq!(card.books().wall_ns(), card.now_ns(), "seed {seed}");
        let had: Vec<_> = (0..3).map(|context| card.had(context)).collect();
        let busy_ns: u64 = had.iter().map(|had| had.busy_ns).sum();
        assert_eq!(busy_ns, card.books().busy_ns);
        for (context, had) in had.iter().enumerate() {
            assert!(card.tails(context).is_empty(), "seed {seed}");
            assert_eq!(had.kernels, kernels[context], "seed {seed}");
            assert!(had.busy_ns <= had.work_ns);
        }
    }
}
